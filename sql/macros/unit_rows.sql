-- unit_rows(file, held): the rows of one unit in a file of units.
-- grain: one row of the file
-- held: the step and rank of the unit in a compacted file; NULL for a file that holds one unit only
-- DuckDB reads only the row groups of the unit. The empty branch names the columns that a file of one unit lacks.
CREATE OR REPLACE MACRO unit_rows(file, held) AS TABLE
SELECT * EXCLUDE (step, rank)
FROM (
    SELECT NULL::INTEGER AS step, NULL::INTEGER AS rank WHERE false
    UNION ALL BY NAME
    FROM read_parquet(file, hive_partitioning = false)
)
WHERE held IS NULL OR (step = struct_extract(held, 'step') AND rank = struct_extract(held, 'rank'))
