-- series: the metrics of every monitored run (schemas/series.yaml).
-- grain: see the schema
-- parameters: series_files, lake_depth, the number of slashes before the lake's contents
SELECT
    split_part(filename, '/', getvariable('lake_depth')::INTEGER + 2)[5:] AS run,
    split_part(filename, '/', getvariable('lake_depth')::INTEGER + 3)[6:]::INTEGER AS rank,
    * EXCLUDE (filename)
FROM read_parquet(
    getvariable('series_files'),
    hive_partitioning = false,
    union_by_name = true,
    filename = true
)
