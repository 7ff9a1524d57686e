-- pairs: what searches made of the rows of every comparison that made one (schemas/pairs.yaml).
-- grain: see the schema
-- parameters: lake_files (folder, as a pattern)
SELECT
    comparison,
    step,
    rank,
    * EXCLUDE (comparison, step, rank)
FROM read_parquet(
    getvariable('lake_files') || '/comparisons/comparison=*/step=*/rank=*/pairs.parquet',
    hive_partitioning = true,
    hive_types = {'comparison': VARCHAR, 'step': INTEGER, 'rank': INTEGER},
    union_by_name = true
)
