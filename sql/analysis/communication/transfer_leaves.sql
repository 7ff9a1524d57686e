-- transfer_leaves: what was recorded of the arguments and outputs of the calls.
-- grain: one leaf of one call
-- parameters: $run; the table transfer_calls
SELECT
    tensors.step,
    tensors.rank,
    tensors.seq,
    tensors.row,
    tensors.role,
    tensors.section,
    tensors.path,
    tensors.slot,
    tensors.kind,
    tensors.value,
    tensors.extra
FROM tensors
JOIN transfer_calls AS calls ON calls.step = tensors.step AND calls.rank = tensors.rank AND calls.seq = tensors.seq
WHERE tensors.run = $run AND tensors.role IN ('input', 'output')
