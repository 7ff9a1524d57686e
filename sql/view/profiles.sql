-- profiles: the errors of a unit along program order, in bins.
-- grain: one bin of one (step, rank) that has an op of the target
-- parameters: $bins; the table view_ops
WITH
    binned AS (
        SELECT
            step,
            rank,
            floor(target_seq * $bins / (max(target_seq) OVER (PARTITION BY step, rank) + 1))::INTEGER AS bin,
            error_out,
            level
        FROM view_ops
        WHERE target_seq IS NOT NULL
    )
SELECT
    step,
    rank,
    bin,
    max(error_out) AS error,
    max(level) AS level
FROM binned
GROUP BY step, rank, bin
ORDER BY step, rank, bin
