-- code_mapping: the tensor files of a kernel dump with the lines of code that their kernels come from, as msprobe's
--   code_mapping has them.
-- grain: a saved tensor, or a kernel of which only statistics were recorded
-- parameters: $run; the views ops, stacks and tensors
-- scope_name: the kernel's name, which is the scope of its node in the IR with _ for /
SELECT
    ops.step,
    ops.rank,
    coalesce(tensors.data_name, ops.op) AS file_path,
    array_to_string(stacks.frames, chr(10)) AS code_stack,
    ops.api AS scope_name
FROM ops
LEFT JOIN stacks USING (run, step, rank, stack)
LEFT JOIN tensors ON
    tensors.run = ops.run
    AND tensors.step = ops.step
    AND tensors.rank = ops.rank
    AND tensors.seq = ops.seq
    AND tensors.data_name IS NOT NULL
WHERE ops.run = $run AND ops.kind = 'kernel'
ORDER BY ops.step, ops.rank, ops.seq, tensors.row
