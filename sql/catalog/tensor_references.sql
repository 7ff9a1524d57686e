-- tensor_references: where the contents of tensors lie, in the form that tensor_metrics takes.
-- grain: one distinct content of a unit
-- parameters: lake (folder); the view contents
SELECT
    run,
    step,
    rank,
    content,
    tensor_reference(
        getvariable('lake') || '/run=' || run || '/step=' || step || '/rank=' || rank, contents
    ) AS reference
FROM contents
