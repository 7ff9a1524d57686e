-- batched_rows(files): a table of comparisons, from files with the rows of several pairs, each with its step and rank.
-- grain: one row of a file
-- parameters: lake_depth
CREATE OR REPLACE MACRO batched_rows(files) AS TABLE
SELECT comparison_of(filename) AS comparison, * EXCLUDE (filename)
FROM read_parquet(files, hive_partitioning = false, union_by_name = true, filename = true)
