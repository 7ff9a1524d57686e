-- repeat_rows: the differences between repeats of golden and golden, for this unit.
-- grain: one tensor of golden
-- parameters: noise_files (a list of files), golden_step, golden_rank
FROM read_parquet(getvariable('noise_files'), hive_partitioning = false)
WHERE step = getvariable('golden_step') AND rank = getvariable('golden_rank')
