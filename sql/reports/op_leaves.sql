-- op_leaves: the leaves of one op, as `lakeprobe show` lists them.
-- grain: one leaf
-- problem: why the contents of a saved tensor cannot be read
-- parameters: $run, $step, $rank, $seq; the view tensors
SELECT
    row,
    slot,
    coalesce(dtype, type, kind) AS type,
    shape,
    max,
    min,
    mean,
    norm,
    value,
    digest,
    content_problem AS problem
FROM tensors
WHERE run = $run AND step = $step AND rank = $rank AND seq = $seq
ORDER BY row
