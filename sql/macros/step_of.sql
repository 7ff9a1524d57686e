-- step_of(filename): the step that a file of a unit is of; DuckDB opens no file that a condition on it leaves out.
CREATE OR REPLACE MACRO step_of(filename) AS
regexp_extract(filename, '/step=(\d+)/rank=\d+/[^/]*$', 1)::INTEGER
