-- measure: the differences between repeats of a golden run and the run itself (schemas/noise.yaml).
-- grain: one tensor of the golden run
-- parameters: $golden, $units (a list: comparison, step and rank of it, golden_step, golden_rank); the views results
--   and suspects
WITH
    units AS (
        SELECT unnest(
            $units::STRUCT(comparison VARCHAR, step INTEGER, rank INTEGER, golden_step INTEGER, golden_rank INTEGER)[],
            recursive := true
        )
    ),
    standing AS (
        SELECT DISTINCT comparison, step, rank, golden_seq
        FROM suspects
        SEMI JOIN units USING (comparison, step, rank)
        WHERE golden_seq IS NOT NULL AND evidence <> 'source'
    )
SELECT
    $golden AS golden,
    units.golden_step AS step,
    units.golden_rank AS rank,
    results.golden_row,
    any_value(results.golden_seq) AS golden_seq,
    any_value(results.golden_name) AS name,
    any_value(results.role) AS role,
    max(if(results.difference = 'equal', 0, results.error)) AS error,
    count(*) AS repeats,
    bool_or(standing.golden_seq IS NOT NULL) AS stands_out,
    list(
        {'repeat': comparison, 'max': target_max, 'min': target_min, 'mean': target_mean, 'norm': target_norm}
        ORDER BY comparison
    ) AS statistics
FROM results
JOIN units USING (comparison, step, rank)
LEFT JOIN standing
    ON standing.comparison = results.comparison
    AND standing.step = results.step
    AND standing.rank = results.rank
    AND standing.golden_seq = results.golden_seq
WHERE golden_kind = 'tensor' AND target_kind = 'tensor'
GROUP BY units.golden_step, units.golden_rank, results.golden_row
ORDER BY step, rank, golden_row
