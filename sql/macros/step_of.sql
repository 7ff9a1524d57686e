-- step_of(filename): the step of a unit's file. DuckDB opens no file that a condition on it excludes.
-- parameters: lake_depth, the number of slashes before the lake's contents
CREATE OR REPLACE MACRO step_of(filename) AS
folder_of(filename, 1, 'step=')::INTEGER
