-- first_rows: the rows of each rank's first difference.
-- grain: one row of the comparison
-- parameters: $comparison; the view results, the tables firsts and op_pairs
WITH
    golden_ops AS (
        SELECT step, rank, golden_seq FROM firsts WHERE target_seq IS NULL
        UNION
        SELECT step, rank, op_pairs.golden_seq FROM firsts JOIN op_pairs USING (step, rank, target_seq)
    )
SELECT results.*
FROM results
JOIN firsts USING (step, rank)
-- one pass over the results, whose rows are wide
LEFT JOIN golden_ops
    ON golden_ops.step = results.step
    AND golden_ops.rank = results.rank
    AND golden_ops.golden_seq = results.golden_seq
WHERE
    comparison = $comparison
    AND (
        results.target_seq = firsts.target_seq
        OR (golden_ops.step IS NOT NULL AND (results.target_seq IS NULL OR firsts.target_seq IS NULL))
    )
