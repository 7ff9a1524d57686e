-- tensor_without_op: every tensor row belongs to an op of its unit.
-- grain: one violation
SELECT
    tensors.run,
    tensors.step,
    tensors.rank,
    tensors.row,
    tensors.name
FROM tensors
ANTI JOIN ops USING (run, step, rank, seq, op)
LIMIT 100
