-- cross_framework: two frameworks, or two implementations of one model, in either direction.
-- What a search found by recorded values pairs, after the user's mappings. Without a search, ops pair under the names that
-- golden gives them: by the mapping files, Cell as Module, Mint as Torch, and the tables of APIs and classes.
-- What has no counterpart is to be expected, and why it has none is its outcome; dtypes need only be of one class.
SET VARIABLE cross_framework = 1;
SET VARIABLE unmatched_is_finding = 0;
CREATE OR REPLACE VIEW op_pairs AS FROM match_renamed;
CREATE OR REPLACE VIEW pairs AS FROM pairs_searched;
CREATE OR REPLACE VIEW verdicts AS FROM verdicts_searched;
