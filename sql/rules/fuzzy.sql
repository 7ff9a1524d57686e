-- fuzzy: pairs the same op under the same module in order, whatever the call numbers.
CREATE OR REPLACE VIEW op_pairs AS FROM match_fuzzy;
