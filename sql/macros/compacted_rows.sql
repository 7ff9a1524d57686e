-- compacted_rows(files, columns): a table of the units of compacted steps, each row with its run, step and rank.
-- grain: one row of a file
-- columns: the schema of the files, with the column rank
-- parameters: lake_depth
CREATE OR REPLACE MACRO compacted_rows(files, columns) AS TABLE
SELECT run_of(filename) AS run, step_of(filename) AS step, * EXCLUDE (filename)
FROM read_parquet(files, schema = columns, filename = true)
