-- moved_by(errors, have_moved): an aggregate over parameters: the middle of the errors by which a repeat of golden moves them, if it moves
--   a quarter of them; else NULL.
CREATE OR REPLACE MACRO moved_by(errors, have_moved) AS
if(avg(have_moved::INTEGER) >= 0.25, median(errors), NULL)
