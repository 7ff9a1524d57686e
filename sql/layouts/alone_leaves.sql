-- alone_leaves: what golden records of ops that it alone has, under numbers of their own.
-- grain: one leaf of golden
-- parameters: $golden, $golden_step, $golden_rank; after leaf_numbers, golden_alone
SELECT
    CAST((SELECT max(leaf) FROM cut_leaves) + row_number() OVER (ORDER BY row) AS INTEGER) AS leaf,
    tensors.op,
    tensors.slot,
    tensors.repeat,
    tensors.role,
    tensors.kind,
    tensors.shape,
    tensors.value,
    tensors.row
FROM tensors
JOIN golden_alone
    USING (op)
WHERE run = $golden AND step = $golden_step AND rank = $golden_rank
