-- members: the leaves of a step of a cut run, under their names in the whole, with their ranks' coordinates.
-- grain: one leaf of one rank
-- parameters: $run, $step; the tables cut_names (piece, op, whole, micro, reason) and cut_ranks (rank, piece, c0, c1, …)
-- sig: equal for leaves with the same value, as far as it was recorded
SELECT
    cut_ranks.* EXCLUDE (piece),
    cut_names.whole AS whole_op,
    cut_names.micro,
    tensors.* EXCLUDE (run, step, rank),
    hash(
        kind,
        dtype,
        shape,
        value,
        coalesce(content, digest, 'statistics'),
        CASE WHEN content IS NULL AND digest IS NULL THEN [max, min, mean, norm] END
    ) AS sig
FROM tensors
JOIN cut_ranks
    ON cut_ranks.rank = tensors.rank
JOIN cut_names
    ON cut_names.piece = cut_ranks.piece AND cut_names.op = tensors.op
WHERE tensors.run = $run AND tensors.step = $step AND cut_names.whole IS NOT NULL
