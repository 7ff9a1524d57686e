-- repeated: what went into ops and differs no further than repeats of golden do there.
-- grain: one leaf that went into an op
-- parameters: the tables noise_makers, noise_repeat_rows and paired; thresholds
-- is_moved: a parameter, of which the repeat moves many, as by a rounding
WITH
    taken AS (
        SELECT
            m.row,
            m.golden_key,
            m.error,
            m.differs,
            m.spacing,
            m.is_source AND m.is_float AND m.phase = 'forward' AND (m.is_parameter OR m.is_trained) AS is_parameter,
            r.error AS repeated,
            moves_in_repeat(r.statistics, golden_max, golden_min, golden_mean, golden_norm) AS has_moved
        FROM noise_makers AS m
        JOIN paired USING (row)
        JOIN noise_repeat_rows AS r USING (golden_row)
    ),
    moved AS (
        SELECT moved_by(repeated, has_moved) AS error
        FROM (
            SELECT max(repeated) AS repeated, bool_or(has_moved) AS has_moved
            FROM taken
            WHERE is_parameter
            GROUP BY golden_key
        )
    )
SELECT row, is_parameter AND moved.error IS NOT NULL AS is_moved
FROM taken
LEFT JOIN moved ON is_parameter
WHERE differs AND is_repeated(taken.error, repeated, moved.error, spacing)
