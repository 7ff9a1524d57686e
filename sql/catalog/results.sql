-- results: the rows of every comparison in the lake (schemas/results.yaml), each with its comparison, step and rank.
-- grain: one row of a comparison: a pair, or a row of one side without counterpart
-- parameters: lake_files (folder, as a pattern)
SELECT
    comparison,
    step,
    rank,
    * EXCLUDE (comparison, step, rank)
FROM read_parquet(
    getvariable('lake_files') || '/comparisons/comparison=*/step=*/rank=*/results.parquet',
    hive_partitioning = true,
    hive_types = {'comparison': VARCHAR, 'step': INTEGER, 'rank': INTEGER},
    union_by_name = true
)
