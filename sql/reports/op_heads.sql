-- op_heads: the ops whose name begins with a text, each with its module and call stack.
-- grain: one op of one (run, step, rank)
-- parameters: $op, and $run, $step, $rank (NULL: all); the views ops and stacks
SELECT
    ops.run,
    ops.step,
    ops.rank,
    ops.seq,
    ops.op,
    ops.parent,
    coalesce(stacks.frames, []) AS frames
FROM ops
LEFT JOIN stacks USING (run, step, rank, stack)
WHERE
    (ops.op = $op OR starts_with(ops.op, $op || '.'))
    AND ops.run = coalesce($run, ops.run)
    AND ops.step = coalesce($step, ops.step)
    AND ops.rank = coalesce($rank, ops.rank)
ORDER BY ops.op, ops.run, ops.step, ops.rank
