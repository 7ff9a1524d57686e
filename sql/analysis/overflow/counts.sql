-- counts: the number of ops of each rank at each level.
-- grain: one rank in one step
-- parameters: $run, $steps (empty: all); the view dumps, the tables overflow_levels, overflow_origins, overflow_blind
-- jumps: those of level high only because of the norm; born, unseen: ops of these origins
--   (sql/analysis/overflow/origins.sql)
-- expected: ops whose NaN and inf are all intended, or in golden too
-- blind: tensors without statistics, whose overflow cannot be detected; tensor_rows: all that was recorded
SELECT
    step,
    rank,
    dumps.ops,
    coalesce(critical, 0) AS critical,
    coalesce(high, 0) AS high,
    coalesce(jumps, 0) AS jumps,
    coalesce(medium, 0) AS medium,
    coalesce(expected, 0) AS expected,
    coalesce(born, 0) AS born,
    coalesce(unseen, 0) AS unseen,
    coalesce(blind, 0) AS blind,
    dumps.tensor_rows
FROM dumps
LEFT JOIN (
    SELECT
        step,
        rank,
        count(*) FILTER (level = 'critical') AS critical,
        count(*) FILTER (level = 'high') AS high,
        count(*) FILTER (level = 'high' AND bad_out = 0) AS jumps,
        count(*) FILTER (level = 'medium') AS medium,
        count(*) FILTER (level IS NULL AND expected IS NOT NULL) AS expected
    FROM overflow_levels
    GROUP BY ALL
) USING (step, rank)
LEFT JOIN (
    SELECT
        step,
        rank,
        count(*) FILTER (origin = 'born') AS born,
        count(*) FILTER (origin = 'unseen') AS unseen
    FROM overflow_origins
    GROUP BY ALL
) USING (step, rank)
LEFT JOIN overflow_blind USING (step, rank)
WHERE run = $run AND (len($steps::INTEGER[]) = 0 OR list_contains($steps::INTEGER[], step))
ORDER BY step, rank
