-- leaves: the tensors and scalars of a unit with what they are told apart by.
-- grain: one leaf that has a name of its own and is no null, in the order of the dump
-- parameters: $unit, the unit's folder
-- dtype_class: int, float, complex or bool: frameworks record the same tensor as Int32 and torch.int64
SELECT
    row,
    seq,
    slot,
    coalesce(role, '') AS role,
    kind,
    shape,
    CASE
        WHEN dtype IS NULL THEN NULL
        WHEN element_type(dtype) LIKE '%float%' THEN 'float'
        WHEN element_type(dtype) LIKE '%int%' THEN 'int'
        ELSE element_type(dtype)
    END AS dtype_class,
    max,
    min,
    mean,
    norm,
    digest,
    coalesce(number::VARCHAR, value) AS value
FROM unit_leaves($unit)
WHERE kind IN ('tensor', 'scalar')
QUALIFY count(*) OVER (PARTITION BY seq, slot) = 1
ORDER BY row
