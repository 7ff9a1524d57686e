-- data: the rows that a data mapping names are held against each other; all else pairs by name.
CREATE OR REPLACE VIEW op_pairs AS FROM match_renamed;
CREATE OR REPLACE VIEW pairs AS FROM pairs_default;
