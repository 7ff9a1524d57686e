-- exact: pairs ops of the same name and call, and in them rows of the same slot; backward calls pair in order of
-- appearance.
-- grain: one pair of a target row and a golden row
WITH op_pairs AS (
    SELECT
        target_ops.seq AS target_seq,
        golden_ops.seq AS golden_seq
    FROM target_ops
    JOIN golden_ops USING (stem, call_number)
)
SELECT
    target.row AS target_row,
    golden.row AS golden_row,
    'exact' AS matched_by
FROM target_leaves AS target
JOIN op_pairs ON op_pairs.target_seq = target.seq
JOIN golden_leaves AS golden
    ON golden.seq = op_pairs.golden_seq AND golden.slot = target.slot AND golden.repeat = target.repeat
