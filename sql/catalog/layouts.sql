-- layouts: the table layouts of every unit in the lake (schemas/layouts.yaml), each row with its run, step and rank.
-- grain: see the schema
-- parameters: layouts_files, lake_depth; the macro columns_of_layouts, which names the columns whether a file has them or not
SELECT
    run_of(filename) AS run,
    step_of(filename) AS step,
    rank_of(filename) AS rank,
    * EXCLUDE (filename)
FROM read_parquet(
    getvariable('layouts_files'),
    schema = columns_of_layouts(),
    filename = true
)
