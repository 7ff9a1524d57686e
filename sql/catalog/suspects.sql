-- suspects: the ops of every comparison in the lake that stand out of rounding noise (schemas/suspects.yaml).
-- grain: one op of one (comparison, step, rank)
-- parameters: lake_files (a pattern of the folder)
SELECT
    comparison,
    step,
    rank,
    * EXCLUDE (comparison, step, rank)
FROM read_parquet(
    getvariable('lake_files') || '/comparisons/comparison=*/step=*/rank=*/suspects.parquet',
    hive_partitioning = true,
    hive_types = {'comparison': VARCHAR, 'step': INTEGER, 'rank': INTEGER},
    union_by_name = true
)
