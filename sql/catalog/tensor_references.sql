-- tensor_references: where the contents of tensors lie, in the form that tensor_metrics takes.
-- grain: one distinct content of a unit
-- parameters: contents_files, lake_depth; the macro columns_of_contents
SELECT
    run_of(filename) AS run,
    step_of(filename) AS step,
    rank_of(filename) AS rank,
    content,
    tensor_reference(parse_dirpath(filename), contents) AS reference
FROM read_parquet(
    getvariable('contents_files'),
    schema = columns_of_contents(),
    filename = true
) AS contents
