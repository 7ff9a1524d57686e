-- noise: what repeats of golden runs differ by (schemas/noise.yaml), each with the name it was measured under.
-- grain: one tensor of a golden run
-- parameters: lake_files (folder, as a pattern)
SELECT noise, * EXCLUDE (noise)
FROM read_parquet(
    getvariable('lake_files') || '/noise/noise=*/noise.parquet',
    hive_partitioning = true,
    hive_types = {'noise': VARCHAR}
)
