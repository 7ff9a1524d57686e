-- compacted_references: where the contents of tensors of compacted steps lie, in the form that tensor_metrics takes.
-- grain: one distinct content of a unit
-- parameters: compacted_contents_files, lake_depth; the macro columns_of_compacted_contents
SELECT
    run_of(filename) AS run,
    step_of(filename) AS step,
    rank,
    content,
    tensor_reference(parse_dirpath(filename) || '/rank=' || rank, contents) AS reference
FROM read_parquet(
    getvariable('compacted_contents_files'),
    schema = columns_of_compacted_contents(),
    filename = true
) AS contents
