-- series: the metrics of every monitored run (schemas/series.yaml).
-- grain: see the schema
-- parameters: series_files, lake_depth, the number of slashes before the lake's contents
SELECT
    folder_of(filename, 1, 'run=') AS run,
    folder_of(filename, 2, 'rank=')::INTEGER AS rank,
    * EXCLUDE (filename)
FROM read_parquet(
    getvariable('series_files'),
    hive_partitioning = false,
    union_by_name = true,
    filename = true
)
