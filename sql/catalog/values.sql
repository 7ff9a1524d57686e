-- values: the tensor contents that are copied into the lake (schemas/values.yaml), each with its run, step and rank.
-- grain: one distinct content of a unit
-- parameters: lake_files (folder, as a pattern)
SELECT
    run,
    step,
    rank,
    * EXCLUDE (run, step, rank)
FROM read_parquet(
    getvariable('lake_files') || '/run=*/step=*/rank=*/values-*.parquet',
    hive_partitioning = true,
    hive_types = {'run': VARCHAR, 'step': INTEGER, 'rank': INTEGER}
)
