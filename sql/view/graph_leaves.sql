-- graph_leaves: the leaves of one (step, rank) of a run.
-- grain: one leaf
-- parameters: $run, $step, $rank; the view tensors
SELECT
    row,
    seq,
    name,
    role,
    kind,
    type,
    dtype,
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
