-- noise: what repeats of golden runs differ by (schemas/noise.yaml), each with the name it was measured under.
-- grain: one tensor of a golden run
-- parameters: noise_files, lake_depth
SELECT noise_of(filename) AS noise, * EXCLUDE (filename)
FROM read_parquet(
    getvariable('noise_files'),
    hive_partitioning = false,
    union_by_name = true,
    filename = true
)
