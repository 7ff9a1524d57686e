-- undumped: the table undumped of every unit in the lake (schemas/undumped.yaml), each row with its run, step and rank.
-- grain: see the schema
-- parameters: undumped_files, lake_depth; the macro columns_of_undumped, which names the columns whether a file has them or not
SELECT
    run_of(filename) AS run,
    step_of(filename) AS step,
    rank_of(filename) AS rank,
    * EXCLUDE (filename)
FROM read_parquet(
    getvariable('undumped_files'),
    schema = columns_of_undumped(),
    filename = true
)
