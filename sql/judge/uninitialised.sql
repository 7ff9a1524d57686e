-- uninitialised: leaves that show memory before anything is written to it; they are shown but not judged.
-- grain: one kind of leaf: an API, with the role and slot that has no meaningful value (slot NULL: every slot)
-- What a collective receives into, by position or by name, holds nothing before the call; what it holds afterwards is an
-- output, which is judged. Of a broadcast one rank reads what the others write to, so it is not listed.
WITH
    receiving(api, slots) AS (
        VALUES
            ('recv', ['input.0', 'input.tensor']),
            ('irecv', ['input.0', 'input.tensor']),
            -- by position, scatter and gather of tensors have other arguments there
            ('scatter', ['input.tensor']),
            ('gather', ['input.gather_list']),
            ('all_gather', ['input.0', 'input.tensor_list']),
            ('all_gather_into_tensor', ['input.0', 'input.output_tensor']),
            ('all_gather_single', ['input.0', 'input.output_tensor']),
            ('_all_gather_base', ['input.0', 'input.output_tensor']),
            ('reduce_scatter', ['input.0', 'input.output']),
            ('reduce_scatter_tensor', ['input.0', 'input.output']),
            ('reduce_scatter_single', ['input.0', 'input.output']),
            ('_reduce_scatter_base', ['input.0', 'input.output']),
            ('all_to_all', ['input.0', 'input.output_tensor_list']),
            ('all_to_all_single', ['input.0', 'input.output'])
    )
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
        -- and in inference all but the first
        ('bn_infer.BatchNorm', 'output', 'output.1'),
        ('bn_infer.BatchNorm', 'output', 'output.2'),
        ('bn_infer.BatchNorm', 'output', 'output.3'),
        ('bn_infer.BatchNorm', 'output', 'output.4')
) AS never_written(api, role, slot)
UNION ALL
SELECT api, 'input' AS role, unnest(slots) AS slot FROM receiving
