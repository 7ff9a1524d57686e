-- standing: the suspects of a comparison that repeats of golden do not show too.
-- grain: one op
-- parameters: $comparison; the view results, the tables outstanding and repeat_rows
WITH
    repeated AS (
        SELECT step, rank, golden_seq, max(error) FILTER (WHERE role NOT IN ('input', 'parameters')) AS error, bool_or(stands_out) AS stands_out
        FROM repeat_rows
        GROUP BY ALL
    ),
    sources AS (
        SELECT
            outstanding.step,
            outstanding.rank,
            outstanding.row,
            results.error,
            rows.error AS repeated,
            epsilon_of(golden_dtype) AS spacing,
            moves_in_repeat(statistics, golden_max, golden_min, golden_mean, golden_norm) AS has_moved
        FROM outstanding
        JOIN results
            ON results.comparison = $comparison
            AND results.step = outstanding.step
            AND results.rank = outstanding.rank
            AND results.row = outstanding.row
        JOIN repeat_rows AS rows
            ON rows.step = golden_step AND rows.rank = golden_rank AND rows.golden_row = results.golden_row
        WHERE evidence = 'source'
    ),
    moved AS (
        SELECT step, rank, moved_by(repeated, has_moved) AS error
        FROM sources
        GROUP BY ALL
    ),
    repeated_sources AS (
        SELECT step, rank, row
        FROM sources
        JOIN moved USING (step, rank)
        WHERE is_repeated(sources.error, repeated, moved.error, spacing)
    )
SELECT outstanding.* REPLACE (row_number() OVER (PARTITION BY outstanding.step, outstanding.rank ORDER BY nth) AS nth)
FROM outstanding
LEFT JOIN repeated
    ON repeated.step = golden_step AND repeated.rank = golden_rank AND repeated.golden_seq = outstanding.golden_seq
WHERE
    NOT coalesce(repeated.stands_out, false)
    AND NOT (evidence = 'added' AND coalesce(error_out <= getvariable('repeat_growth') * repeated.error, false))
    AND NOT (evidence = 'source' AND (outstanding.step, outstanding.rank, outstanding.row) IN (FROM repeated_sources))
