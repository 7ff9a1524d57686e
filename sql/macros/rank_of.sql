-- rank_of(filename): the rank of a unit's file. DuckDB opens no file that a condition on it excludes.
CREATE OR REPLACE MACRO rank_of(filename) AS
regexp_extract(filename, '/rank=(\d+)/[^/]*$', 1)::INTEGER
