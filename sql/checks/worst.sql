-- worst: the target's ops of a comparison whose results differ most, the largest error first.
-- grain: one op of one (step, rank)
-- parameters: $comparison, $most; the view results
SELECT step, rank, target_seq AS seq
FROM results
WHERE comparison = $comparison AND target_seq IS NOT NULL AND role = 'output' AND error > 0
GROUP BY ALL
ORDER BY max(error) DESC, step, rank, seq
LIMIT $most
