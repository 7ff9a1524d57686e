-- run_of(filename): the run that a file of a unit is of; DuckDB opens no file that a condition on it leaves out.
CREATE OR REPLACE MACRO run_of(filename) AS
regexp_extract(filename, '/run=([^/]*)/step=\d+/rank=\d+/[^/]*$', 1)
