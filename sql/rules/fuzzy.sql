-- fuzzy: the same op under the same module pairs in order, call numbers apart.
CREATE OR REPLACE VIEW op_pairs AS FROM match_fuzzy;
