-- cell: modules and APIs pair under the names that a cell mapping or an API mapping gives them; all else by its own name.
CREATE OR REPLACE VIEW op_pairs AS FROM match_renamed;
