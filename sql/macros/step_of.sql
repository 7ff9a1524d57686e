-- step_of(filename): the step of a unit's file. DuckDB opens no file that a condition on it excludes.
CREATE OR REPLACE MACRO step_of(filename) AS
regexp_extract(filename, '/step=(\d+)/rank=\d+/[^/]*$', 1)::INTEGER
