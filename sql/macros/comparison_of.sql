-- comparison_of(filename): the comparison that a file is of; DuckDB opens no file that a condition on it leaves out.
-- parameters: lake_depth, how many slashes are in front of what lies in the lake
CREATE OR REPLACE MACRO comparison_of(filename) AS
folder_of(filename, 1, 'comparison=')
