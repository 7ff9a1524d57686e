-- ignored: inputs and outputs that are memory not yet written, where NaN is not a finding.
-- grain: one slot of one op, including the leaves below it (input.0.1)
-- name: the op's name in lower case without underscores (sql/analysis/overflow/leaves.sql)
-- is_communication: only if the op is a collective or receive (torch.scatter is not)
-- unless_passed_on: the input counts nevertheless if the op's output has NaN or inf too
-- Source: msprobe 26.2 (core/overflow_check) for empty*, recv, all_gather*, reduce_scatter* and masked_fill_; the
-- others follow the same reasoning.
FROM (VALUES
    ('empty', false, 'output', 'output', false, 'memory that nobody has written yet'),
    ('emptylike', false, 'output', 'output', false, 'memory that nobody has written yet'),
    ('emptystrided', false, 'output', 'output', false, 'memory that nobody has written yet'),
    ('newempty', false, 'output', 'output', false, 'memory that nobody has written yet'),
    ('emptypermuted', false, 'output', 'output', false, 'memory that nobody has written yet'),
    ('recv', true, 'input', 'input.0', false, 'the buffer to receive into'),
    ('recv', true, 'input', 'input.tensor', false, 'the buffer to receive into'),
    ('irecv', true, 'input', 'input.0', false, 'the buffer to receive into'),
    ('irecv', true, 'input', 'input.tensor', false, 'the buffer to receive into'),
    ('allgather', true, 'input', 'input.0', false, 'the buffers to gather into'),
    ('allgather', true, 'input', 'input.tensor_list', false, 'the buffers to gather into'),
    ('allgatherintotensor', true, 'input', 'input.0', false, 'the buffer to gather into'),
    ('allgatherintotensor', true, 'input', 'input.output_tensor', false, 'the buffer to gather into'),
    ('allgatherbase', true, 'input', 'input.0', false, 'the buffer to gather into'),
    ('allgatherbase', true, 'input', 'input.output_tensor', false, 'the buffer to gather into'),
    ('gather', true, 'input', 'input.gather_list', false, 'the buffers to gather into'),
    ('reducescatter', true, 'input', 'input.0', false, 'the buffer for the reduced shard'),
    ('reducescatter', true, 'input', 'input.output', false, 'the buffer for the reduced shard'),
    ('reducescatterbase', true, 'input', 'input.0', false, 'the buffer for the reduced shard'),
    ('reducescatterbase', true, 'input', 'input.output', false, 'the buffer for the reduced shard'),
    ('reducescattertensor', true, 'input', 'input.0', false, 'the buffer for the reduced shard'),
    ('reducescattertensor', true, 'input', 'input.output', false, 'the buffer for the reduced shard'),
    ('scatter', true, 'input', 'input.0', false, 'the buffer to receive into'),
    ('scatter', true, 'input', 'input.tensor', false, 'the buffer to receive into'),
    ('alltoall', true, 'input', 'input.0', false, 'the buffers to receive into'),
    ('alltoall', true, 'input', 'input.output_tensor_list', false, 'the buffers to receive into'),
    ('alltoallsingle', true, 'input', 'input.0', false, 'the buffer to receive into'),
    ('alltoallsingle', true, 'input', 'input.output', false, 'the buffer to receive into'),
    ('maskedfill_', false, 'input', 'input.0', true, 'filled over in place')
) AS ignored (name, is_communication, role, slot, unless_passed_on, reason)
