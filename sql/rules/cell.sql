-- cell: pairs modules and APIs under the names of a cell or API mapping; all else by its own name.
CREATE OR REPLACE VIEW op_pairs AS FROM match_renamed;
