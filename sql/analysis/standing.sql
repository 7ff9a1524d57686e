-- standing: the suspects of a comparison that repeats of golden do not show too.
-- grain: one op
-- parameters: $comparison, $units (a list of step, rank, golden_step, golden_rank, is_rounding); the views
--   suspects and results, the table repeat_rows
WITH
    units AS (
        SELECT unnest(
            $units::STRUCT(step INTEGER, rank INTEGER, golden_step INTEGER, golden_rank INTEGER, is_rounding BOOLEAN)[], recursive := true
        )
    ),
    asked AS (
        SELECT suspects.*, golden_step, golden_rank
        FROM suspects
        JOIN units USING (step, rank)
        -- where nothing rounds differently, the differences themselves show what was made
        WHERE comparison = $comparison AND (is_rounding OR NOT is_of_values(evidence))
    ),
    repeated AS (
        SELECT step, rank, golden_seq, max(error) FILTER (WHERE role NOT IN ('input', 'parameters')) AS error, bool_or(stands_out) AS stands_out
        FROM repeat_rows
        GROUP BY ALL
    ),
    sources AS (
        SELECT
            asked.step,
            asked.rank,
            asked.row,
            results.error,
            rows.error AS repeated,
            if(is_low_precision(epsilon_of(golden_dtype)), 0, epsilon_of(golden_dtype)) AS spacing,
            moves_in_repeat(statistics, golden_max, golden_min, golden_mean, golden_norm) AS has_moved
        FROM asked
        JOIN results
            ON results.comparison = $comparison
            AND results.step = asked.step
            AND results.rank = asked.rank
            AND results.row = asked.row
        JOIN repeat_rows AS rows
            ON rows.step = golden_step AND rows.rank = golden_rank AND rows.golden_row = results.golden_row
        WHERE evidence = 'source'
    ),
    -- by how much a repeat moves its parameters, if it moves many of them (sql/noise/repeated.sql)
    moved AS (
        SELECT step, rank, median(repeated) AS error
        FROM sources
        GROUP BY ALL
        HAVING avg(has_moved::INTEGER) >= 0.25
    ),
    repeated_sources AS (
        SELECT step, rank, row
        FROM (
            SELECT
                sources.*,
                greatest(repeated, moved.error, if(moved.error IS NULL, 0, spacing)) AS usual
            FROM sources
            LEFT JOIN moved USING (step, rank)
        )
        WHERE usual > 0 AND error <= getvariable('repeat_growth') * usual
    )
SELECT asked.* REPLACE (row_number() OVER (PARTITION BY asked.step, asked.rank ORDER BY nth) AS nth)
FROM asked
LEFT JOIN repeated
    ON repeated.step = golden_step AND repeated.rank = golden_rank AND repeated.golden_seq = asked.golden_seq
WHERE
    NOT coalesce(repeated.stands_out, false)
    AND NOT (evidence = 'added' AND coalesce(error_out <= getvariable('repeat_growth') * repeated.error, false))
    AND NOT (evidence = 'source' AND (asked.step, asked.rank, asked.row) IN (FROM repeated_sources))
