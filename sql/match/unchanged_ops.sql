-- unchanged_ops: the target's ops under their own names; what renamed_ops is where nothing renames.
-- grain: one op of the target
SELECT
    seq,
    part,
    stem,
    parent,
    'exact' AS renamed_by,
    call_number
FROM target_ops
