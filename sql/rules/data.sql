-- data: pairs the rows that a data mapping names; all else by name.
CREATE OR REPLACE VIEW op_pairs AS FROM match_renamed;
CREATE OR REPLACE VIEW pairs AS FROM pairs_default;
