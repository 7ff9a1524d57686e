-- gathered_rows(files, columns): a table of the units of compacted ranks, each row with its run, step and rank.
-- grain: one row of a file
-- columns: the schema of the files, with the columns step and rank
-- parameters: lake_depth
CREATE OR REPLACE MACRO gathered_rows(files, columns) AS TABLE
SELECT run_of(filename) AS run, * EXCLUDE (filename)
FROM read_parquet(files, schema = columns, filename = true)
