-- tensor_references: where the contents of tensors lie, in the form that tensor_metrics takes.
-- grain: one distinct content of a unit
-- parameters: lake (folder); the view contents
SELECT
    run,
    step,
    rank,
    content,
    {
        'file': if(
            file LIKE '/%', file,
            getvariable('lake') || '/run=' || run || '/step=' || step || '/rank=' || rank || '/' || file
        ),
        'offset': "offset",
        'length': length,
        'dtype': dtype,
        'shape': shape,
        'strides': strides
    } AS reference
FROM contents
