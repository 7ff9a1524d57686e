-- leaf_numbers: the leaves of the whole, numbered, with what the first rank has of each that is not a statistic.
-- grain: one leaf of the whole
-- is_whole: the tensor has no fractions: it is of integers or bools
-- is_unknown: of a rank's tensor nothing but the shape is recorded
-- parameters: $run, $step; the tables cut_names (piece, op, whole, micro, reason) and cut_ranks (rank, piece, coordinates)
SELECT
    CAST(row_number() OVER (ORDER BY cut_names.whole, slot, repeat) - 1 AS INTEGER) AS leaf,
    cut_names.whole AS whole_op,
    slot,
    repeat,
    arg_min_null(role, CAST(rank AS BIGINT) << 32 | micro) AS role,
    arg_min_null(kind, CAST(rank AS BIGINT) << 32 | micro) AS kind,
    arg_min_null(value, CAST(rank AS BIGINT) << 32 | micro) AS number,
    arg_min_null(extra, CAST(rank AS BIGINT) << 32 | micro) AS extra,
    bool_or(lower(dtype) LIKE '%bool%') AS is_bool,
    coalesce(bool_and(regexp_matches(lower(dtype), 'bool|int')), false) AS is_whole,
    bool_or(tensors.kind = 'tensor' AND coalesce(max, min, mean, norm) IS NULL AND content IS NULL AND digest IS NULL) AS is_unknown
FROM tensors
JOIN cut_ranks
    USING (rank)
JOIN cut_names
    USING (piece, op)
WHERE tensors.run = $run AND tensors.step = $step AND cut_names.whole IS NOT NULL
GROUP BY cut_names.whole, slot, repeat
