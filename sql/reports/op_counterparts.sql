-- op_counterparts: which ops of golden a comparison paired with the ops of the target, under other names.
-- grain: one pair of ops
-- parameters: $comparison; the view results
SELECT DISTINCT
    target_op,
    golden_op
FROM results
WHERE comparison = $comparison AND target_op <> golden_op
ORDER BY target_op, golden_op
