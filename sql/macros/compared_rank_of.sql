-- compared_rank_of(filename): the target's rank that a file of a comparison is of.
CREATE OR REPLACE MACRO compared_rank_of(filename) AS
regexp_extract(filename, '/rank=([^/]*)/[^/]*$', 1)::INTEGER
