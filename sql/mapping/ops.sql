-- ops: the ops of a unit, with what aligns them.
-- grain: one op, in the order of the dump
-- parameters: $folder and $held, of the unit
SELECT
    seq,
    op,
    op_kind,
    api,
    module_class,
    coalesce(direction, '') AS direction,
    call_number,
    parent
FROM unit_ops($folder, $held)
ORDER BY seq
