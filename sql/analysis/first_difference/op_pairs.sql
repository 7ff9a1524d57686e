-- op_pairs: the ops of the two sides whose leaves are paired, where a side has leaves of its own.
-- grain: one pair of ops of one (step, rank) in which some leaf has no counterpart
-- parameters: $comparison; the view results
-- Elsewhere every op is paired with the one that its leaves name.
WITH
    uneven AS (
        SELECT DISTINCT step, rank
        FROM results
        WHERE comparison = $comparison AND (target_seq IS NULL OR golden_seq IS NULL)
    )
SELECT DISTINCT step, rank, target_seq, golden_seq
FROM results
SEMI JOIN uneven USING (step, rank)
WHERE comparison = $comparison AND target_seq IS NOT NULL AND golden_seq IS NOT NULL
