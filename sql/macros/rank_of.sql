-- rank_of(filename): the rank that a file of a unit is of; DuckDB opens no file that a condition on it leaves out.
CREATE OR REPLACE MACRO rank_of(filename) AS
regexp_extract(filename, '/rank=(\d+)/[^/]*$', 1)::INTEGER
