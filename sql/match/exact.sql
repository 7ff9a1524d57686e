-- exact: pairs ops of the same name and call; backward calls pair in order of appearance, or by name.
-- grain: one pair of ops
SELECT
    target_ops.seq AS target_seq,
    golden_ops.seq AS golden_seq,
    'exact' AS matched_by
FROM target_ops
JOIN golden_ops USING (part, stem, call_number)
