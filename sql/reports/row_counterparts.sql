-- row_counterparts: which leaves of golden a comparison paired with the leaves of one op of the target.
-- grain: one pair of leaves
-- parameters: $comparison, $step, $rank, $target_seq, $golden_seq; the view results
SELECT
    target_row,
    golden_row
FROM results
WHERE
    comparison = $comparison
    AND step = $step
    AND rank = $rank
    AND target_seq = $target_seq
    AND golden_seq = $golden_seq
    AND target_row IS NOT NULL
    AND golden_row IS NOT NULL
ORDER BY target_row, golden_row
