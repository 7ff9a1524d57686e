-- gathered_references: where the contents of tensors of compacted ranks lie, in the form that tensor_metrics takes.
-- grain: one distinct content of a unit
-- parameters: gathered_contents_files, lake_depth; the macro columns_of_gathered_contents
SELECT
    run_of(filename) AS run,
    step,
    rank,
    content,
    tensor_reference(parse_dirpath(filename) || '/rank=' || rank, contents) AS reference
FROM read_parquet(
    getvariable('gathered_contents_files'),
    schema = columns_of_gathered_contents(),
    filename = true
) AS contents
