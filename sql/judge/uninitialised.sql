-- uninitialised: leaves that show uninitialised memory; they are shown but not judged.
-- grain: one kind of leaf: an API, with the role and slot that has no meaningful value (slot NULL: every slot)
SELECT
    api,
    role,
    slot
FROM (
    VALUES
        ('empty', 'output', NULL),
        ('empty_like', 'output', NULL),
        ('empty_strided', 'output', NULL),
        ('empty_with_format', 'output', NULL),
        ('new_empty', 'output', NULL),
        ('new_empty_strided', 'output', NULL),
        -- in training, nn.BatchNorm's primitive on a CPU leaves these two of its results as it finds the memory
        ('bn_train.BatchNorm', 'output', 'output.1'),
        ('bn_train.BatchNorm', 'output', 'output.2'),
        ('recv', 'input', 'input.0'),
        ('irecv', 'input', 'input.0'),
        ('all_gather', 'input', 'input.0'),
        ('all_gather_into_tensor', 'input', 'input.0'),
        ('_all_gather_base', 'input', 'input.0'),
        ('reduce_scatter', 'input', 'input.0'),
        ('reduce_scatter_tensor', 'input', 'input.0'),
        ('_reduce_scatter_base', 'input', 'input.0'),
        ('all_to_all_single', 'input', 'input.0')
) AS uninitialised(api, role, slot)
