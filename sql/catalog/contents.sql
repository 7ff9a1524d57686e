-- contents: the table contents of every unit in the lake (schemas/contents.yaml), each row with its run, step and rank.
-- grain: see the schema
-- parameters: contents_files, lake_depth; the macro columns_of_contents, which names the columns whether a file has them or not
SELECT
    run_of(filename) AS run,
    step_of(filename) AS step,
    rank_of(filename) AS rank,
    * EXCLUDE (filename)
FROM read_parquet(
    getvariable('contents_files'),
    schema = columns_of_contents(),
    filename = true
)
