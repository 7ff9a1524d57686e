-- unchanged_ops: the target's ops under their own names; it stands in for renamed_ops if nothing is renamed.
-- grain: one op of the target
SELECT
    seq,
    part,
    stem,
    parent,
    'exact' AS renamed_by,
    call_number
FROM target_ops
