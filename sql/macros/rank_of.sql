-- rank_of(filename): the rank of a unit's file. DuckDB opens no file that a condition on it excludes.
-- parameters: lake_depth, the number of slashes before the lake's contents
CREATE OR REPLACE MACRO rank_of(filename) AS
split_part(filename, '/', getvariable('lake_depth')::INTEGER + 3)[6:]::INTEGER
