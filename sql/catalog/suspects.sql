-- suspects: the ops of every comparison in the lake that stand out of rounding noise (schemas/suspects.yaml).
-- grain: one op of one (comparison, step, rank)
-- parameters: suspects_files, lake_depth
SELECT
    comparison_of(filename) AS comparison,
    compared_step_of(filename) AS step,
    compared_rank_of(filename) AS rank,
    COLUMNS(lambda name: name NOT IN ('filename', 'comparison', 'step', 'rank'))
FROM read_parquet(
    getvariable('suspects_files'),
    hive_partitioning = false,
    union_by_name = true,
    filename = true
)
