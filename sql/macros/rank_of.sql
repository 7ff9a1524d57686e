-- rank_of(filename): the rank of a unit's file. DuckDB opens no file that a condition on it excludes.
-- The folder of a rank is below its step; in a compacted step it is below the folder of the publication.
-- parameters: lake_depth, the number of slashes before the lake's contents
CREATE OR REPLACE MACRO rank_of(filename) AS
folder_of(filename, 2, '(?:[^/]*/)?rank=')::INTEGER
