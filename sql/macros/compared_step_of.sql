-- compared_step_of(filename): the target's step that a file of a comparison is of.
CREATE OR REPLACE MACRO compared_step_of(filename) AS
regexp_extract(filename, '/step=([^/]*)/[^/]*/[^/]*$', 1)::INTEGER
