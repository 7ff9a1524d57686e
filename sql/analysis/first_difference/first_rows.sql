-- first_rows: the rows of each rank's first difference.
-- grain: one row of the comparison
-- parameters: $comparison; the view results, the tables firsts and op_pairs
SELECT results.*
FROM results
JOIN firsts
    ON firsts.step = results.step AND firsts.rank = results.rank AND firsts.target_seq = results.target_seq
WHERE comparison = $comparison
UNION ALL
SELECT results.*
FROM results
JOIN (
    SELECT step, rank, golden_seq FROM firsts WHERE target_seq IS NULL
    UNION
    SELECT step, rank, op_pairs.golden_seq FROM firsts JOIN op_pairs USING (step, rank, target_seq)
) AS wanted
    ON wanted.step = results.step AND wanted.rank = results.rank AND wanted.golden_seq = results.golden_seq
LEFT JOIN firsts ON firsts.step = results.step AND firsts.rank = results.rank
WHERE comparison = $comparison AND (results.target_seq IS NULL OR firsts.target_seq IS NULL)
