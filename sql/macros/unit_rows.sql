-- unit_rows(file, of_rank): the rows of one unit in a file of units.
-- grain: one row of the file
-- of_rank: the rank of the unit in the file of a compacted step; NULL for a file that holds one unit only
-- DuckDB reads only the row groups of the rank. The empty branch names the columns that a file of one unit lacks.
CREATE OR REPLACE MACRO unit_rows(file, of_rank) AS TABLE
SELECT * EXCLUDE (step, rank)
FROM (
    SELECT NULL::INTEGER AS step, NULL::INTEGER AS rank WHERE false
    UNION ALL BY NAME
    FROM read_parquet(file, hive_partitioning = false)
)
WHERE of_rank IS NULL OR rank = of_rank
