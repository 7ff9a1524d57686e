-- slots: pairs leaves of the same slot in each pair of ops of op_pairs.
-- grain: one pair of a target row and a golden row
SELECT
    target.row AS target_row,
    golden.row AS golden_row,
    op_pairs.matched_by
FROM target_leaves AS target
JOIN op_pairs ON op_pairs.target_seq = target.seq
JOIN golden_leaves AS golden
    ON golden.seq = op_pairs.golden_seq AND golden.slot = target.slot AND golden.repeat = target.repeat
