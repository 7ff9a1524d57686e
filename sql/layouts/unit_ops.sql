-- unit_ops: the table ops of the merged unit.
-- grain: one op
-- parameters: after whole_ops, whole_stacks
SELECT
    whole_ops.seq,
    '' AS part,
    op,
    kind,
    api_type,
    api,
    module_class,
    direction,
    call,
    stem,
    parent,
    CAST(
        row_number() OVER (ORDER BY began IS NULL, whole_ops.seq) - 1 AS INTEGER
    ) AS began,
    micro_step,
    is_recompute,
    whole_stacks.number AS stack,
    CAST(first_row AS INTEGER) AS first_row,
    sections,
    empties,
    extra
FROM whole_ops
LEFT JOIN whole_stacks
    ON whole_stacks.rank = whole_ops.rank AND whole_stacks.stack = whole_ops.stack
ORDER BY whole_ops.seq
