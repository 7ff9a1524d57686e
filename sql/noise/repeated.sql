-- repeated: what went into ops and differs no further than repeats of golden do there.
-- grain: one leaf that went into an op
-- parameters: the tables noise_makers, noise_repeat_rows and paired; thresholds
-- is_moved: a parameter, of which the repeat moves many, as by a rounding. Statistics show less of one than of others, and
--   nothing at all of some: so each may differ as far as the middle one, and in float32 by a spacing at least
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
        SELECT median(repeated) AS error
        FROM (
            SELECT max(repeated) AS repeated, bool_or(has_moved) AS has_moved
            FROM taken
            WHERE is_parameter
            GROUP BY golden_key
        )
        HAVING avg(has_moved::INTEGER) >= 0.25
    ),
    explained AS (
        SELECT
            row,
            differs,
            taken.error,
            is_parameter AND moved.error IS NOT NULL AS is_moved,
            greatest(repeated, moved.error, if(is_moved AND NOT is_low_precision(spacing), spacing, 0)) AS usual
        FROM taken
        LEFT JOIN moved ON is_parameter
    )
SELECT row, is_moved
FROM explained
WHERE differs AND usual > 0 AND error <= getvariable('repeat_growth') * usual
