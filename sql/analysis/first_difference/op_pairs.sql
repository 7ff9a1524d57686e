-- op_pairs: the ops of the two sides whose leaves are paired.
-- grain: one pair of ops of one (step, rank)
-- parameters: $comparison; the view results
SELECT DISTINCT step, rank, target_seq, golden_seq
FROM results
WHERE comparison = $comparison AND target_seq IS NOT NULL AND golden_seq IS NOT NULL
