-- graph_nodes: what construct.json and dump.json name in one (step, rank) of a run, as tb-graph-ascend's graphs list it.
-- grain: one op: those of construct.json in its order, then the others in the dump's
-- parameters: $run, $step, $rank; the views ops, undumped and stacks
SELECT
    ops.op,
    ops.seq,
    ops.parent,
    ops.began IS NOT NULL AS is_constructed,
    ops.kind,
    ops.micro_step,
    coalesce(ops.is_recompute, is_recomputation(stacks.frames), false) AS is_recompute,
    stacks.frames
FROM (
    SELECT op, seq, parent, began, kind, micro_step, is_recompute, stack
    FROM ops
    WHERE run = $run AND step = $step AND rank = $rank
    UNION ALL
    SELECT op, NULL, parent, began, if(is_module(op) OR NOT contains(op, '.'), 'module', 'api'), micro_step, NULL, stack
    FROM undumped
    WHERE run = $run AND step = $step AND rank = $rank AND began IS NOT NULL
) AS ops
LEFT JOIN stacks
    ON stacks.run = $run
    AND stacks.step = $step
    AND stacks.rank = $rank
    AND stacks.stack = ops.stack
ORDER BY began NULLS LAST, seq
