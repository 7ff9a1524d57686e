-- compared_rank_of(filename): the target's rank that a file of a comparison is of.
CREATE OR REPLACE MACRO compared_rank_of(filename) AS
split_part(filename, '/', -2)[6:]::INTEGER
