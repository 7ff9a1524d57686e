-- framework: the framework that a dump names; old dumps that name none are of PyTorch.
-- grain: one row, for the unit's dump
-- parameters: $unit, the unit's folder
SELECT coalesce(framework, 'pytorch') AS framework
FROM read_parquet($unit || '/dumps.parquet', hive_partitioning = false)
