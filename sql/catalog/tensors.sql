-- tensors: the table tensors of every unit in the lake (schemas/tensors.yaml), each row with its run, step and rank.
-- grain: see the schema
-- parameters: lake_files (folder, as a pattern)
SELECT
    run,
    step,
    rank,
    * EXCLUDE (run, step, rank)
FROM read_parquet(
    getvariable('lake_files') || '/run=*/step=*/rank=*/tensors.parquet',
    hive_partitioning = true,
    hive_types = {'run': VARCHAR, 'step': INTEGER, 'rank': INTEGER}
)
