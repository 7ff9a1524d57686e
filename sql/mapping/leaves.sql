-- leaves: the tensors and scalars of a unit, with what distinguishes them.
-- grain: one leaf that is not null, op by op in the order of the dump
-- parameters: $folder and $held, of the unit
-- spacing: of what an op gives, at 1 (macros/epsilon); 0 for all else
-- dtype_class: int, float, complex or bool, because frameworks record the same tensor as Int32 and torch.int64
SELECT
    row,
    seq,
    slot,
    coalesce(role, '') AS role,
    CASE
        WHEN kind = 'scalar' THEN kind
        WHEN dtype ILIKE '%float%' THEN 'float'
        WHEN dtype ILIKE '%int%' THEN 'int'
        ELSE element_type(dtype)
    END AS dtype_class,
    if(role = 'output', epsilon_of(dtype), 0) AS spacing,
    shape::VARCHAR AS shape,
    max,
    min,
    mean,
    norm,
    digest,
    if(kind = 'scalar', coalesce(number::VARCHAR, value), NULL) AS value
FROM unit_leaves($folder, $held)
WHERE kind IN ('tensor', 'scalar')
ORDER BY seq, row
