-- pairs: what searches made of the rows of every comparison that made one (schemas/pairs.yaml).
-- grain: see the schema
-- parameters: pairs_files, lake_depth
SELECT
    comparison_of(filename) AS comparison,
    compared_step_of(filename) AS step,
    compared_rank_of(filename) AS rank,
    COLUMNS(lambda name: name NOT IN ('filename', 'comparison', 'step', 'rank'))
FROM read_parquet(
    getvariable('pairs_files'),
    hive_partitioning = false,
    union_by_name = true,
    filename = true
)
