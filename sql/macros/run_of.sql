-- run_of(filename): the run of a unit's file. DuckDB opens no file that a condition on it excludes.
CREATE OR REPLACE MACRO run_of(filename) AS
regexp_extract(filename, '/run=([^/]*)/step=\d+/rank=\d+/[^/]*$', 1)
