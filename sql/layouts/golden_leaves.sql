-- golden_leaves: golden's leaves of a step, where the cut run has them too.
-- grain: one leaf
-- parameters: $golden, $golden_step, $golden_rank; no rows without golden; after leaf_numbers
SELECT
    cut_leaves.leaf,
    tensors.shape,
    tensors.value,
    tensors.max,
    tensors.min,
    tensors.mean,
    tensors.norm,
    tensors.content
FROM tensors
JOIN cut_leaves
    ON cut_leaves.whole_op = tensors.op AND cut_leaves.slot = tensors.slot AND cut_leaves.repeat = tensors.repeat
WHERE run = $golden AND step = $golden_step AND rank = $golden_rank
