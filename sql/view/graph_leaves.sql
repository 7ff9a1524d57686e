-- graph_leaves: the leaves of one (step, rank) of a run.
-- grain: one leaf
-- shown_dtype: as in msprobe's tables, without quotes
-- parameters: $run, $step, $rank; the view tensors
SELECT
    row,
    seq,
    name,
    role,
    kind,
    type,
    dtype,
    replace(cell_dtype(kind, type, dtype, name), '''', '') AS shown_dtype,
    is_rank_argument(name) AS is_rank_argument,
    shape,
    value,
    max,
    min,
    mean,
    norm,
    max_int,
    min_int,
    stat_types,
    requires_grad,
    digest,
    data_name,
    extra
FROM tensors
WHERE run = $run AND step = $step AND rank = $rank
ORDER BY row
