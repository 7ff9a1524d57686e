-- values: the tensor contents that are copied into the lake (schemas/values.yaml), each with its run, step and rank.
-- grain: one distinct content of a unit
-- parameters: values_files, lake_depth; the macro columns_of_values, which names the columns whether a file has them or not
SELECT
    run_of(filename) AS run,
    step_of(filename) AS step,
    rank_of(filename) AS rank,
    * EXCLUDE (filename)
FROM read_parquet(
    getvariable('values_files'),
    schema = columns_of_values(),
    filename = true
)
