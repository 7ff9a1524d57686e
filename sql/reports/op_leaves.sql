-- op_leaves: the leaves of one op, as `lakeprobe show` lists them.
-- grain: one leaf
-- parameters: $run, $step, $rank, $seq; the view tensors
SELECT
    slot,
    coalesce(dtype, type, kind) AS type,
    shape,
    max,
    min,
    mean,
    norm,
    value,
    requires_grad,
    digest,
    coalesce(content_problem, content) AS content
FROM tensors
WHERE run = $run AND step = $step AND rank = $rank AND seq = $seq
ORDER BY row
