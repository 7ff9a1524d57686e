-- results: the rows of every comparison in the lake (schemas/results.yaml), each with its comparison, step and rank.
-- grain: one row of a comparison: a pair, or a row of one side without counterpart
-- parameters: results_files, lake_depth
SELECT
    comparison_of(filename) AS comparison,
    compared_step_of(filename) AS step,
    compared_rank_of(filename) AS rank,
    COLUMNS(lambda name: name NOT IN ('filename', 'comparison', 'step', 'rank'))
FROM read_parquet(
    getvariable('results_files'),
    hive_partitioning = false,
    union_by_name = true,
    filename = true
)
