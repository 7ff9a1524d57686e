-- compared_step_of(filename): the target's step that a file of a comparison is of.
CREATE OR REPLACE MACRO compared_step_of(filename) AS
split_part(filename, '/', -3)[6:]::INTEGER
