-- step_of(filename): the step that a file of a unit is of; DuckDB opens no file that a condition on it leaves out.
-- parameters: lake_depth, how many slashes are in front of what lies in the lake
CREATE OR REPLACE MACRO step_of(filename) AS
split_part(filename, '/', getvariable('lake_depth')::INTEGER + 2)[6:]::INTEGER
