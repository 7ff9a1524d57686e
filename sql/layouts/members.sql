-- members: the leaves of a step of a cut run, under their numbers in the whole.
-- grain: one leaf of one rank
-- parameters: $run, $step; after leaf_numbers
-- A large job has millions of them, so they have no more than merging needs.
-- sig: equal for leaves with the same value, as far as it was recorded
SELECT
    cut_leaves.leaf,
    cut_ranks.rank,
    CAST(cut_names.micro AS USMALLINT) AS micro,
    tensors.row,
    tensors.shape,
    tensors.max,
    tensors.min,
    tensors.mean,
    tensors.norm,
    tensors.content,
    hash(
        tensors.kind,
        dtype,
        shape,
        value,
        coalesce(content, digest, 'statistics'),
        CASE WHEN content IS NULL AND digest IS NULL THEN [max, min, mean, norm] END
    ) AS sig
FROM tensors
JOIN cut_ranks
    USING (rank)
JOIN cut_names
    USING (piece, op)
JOIN cut_leaves
    ON cut_leaves.whole_op = cut_names.whole AND cut_leaves.slot = tensors.slot AND cut_leaves.repeat = tensors.repeat
WHERE tensors.run = $run AND tensors.step = $step
