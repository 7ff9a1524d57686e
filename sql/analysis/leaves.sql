-- leaves: some rows of a comparison in short, as a summary shows them.
-- grain: one row of the comparison
-- parameters: $step, $rank, $rows (a list); the view results
SELECT
    substr(coalesce(target_name, golden_name), length(coalesce(target_op, golden_op)) + 2) AS slot,
    coalesce(difference, 'unmatched') AS difference,
    leaf_text(target_kind, target_type, target_dtype, target_shape, target_value, target_norm, target_max, target_digest) AS target,
    leaf_text(golden_kind, golden_type, golden_dtype, golden_shape, golden_value, golden_norm, golden_max, golden_digest) AS golden
FROM results
WHERE step = $step AND rank = $rank AND list_contains($rows, row)
ORDER BY row
