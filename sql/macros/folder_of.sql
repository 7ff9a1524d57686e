-- folder_of(filename, number, before): what follows `before`, such as 'run=', in a folder of a path in the lake; number
--   0 is the folder in the lake itself.
-- DuckDB works a regular expression out once for all rows of a file, and split_part for each row, which takes longer
-- than reading a column.
-- parameters: lake_depth, the number of slashes before the lake's contents
CREATE OR REPLACE MACRO folder_of(filename, number, before) AS
regexp_extract(
    filename,
    '^(?:[^/]*/){' || (getvariable('lake_depth')::INTEGER + number) || '}' || before || '([^/]*)',
    1
)
