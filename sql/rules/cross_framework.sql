-- cross_framework: two frameworks, or two implementations of one model, in either direction.
-- Rows pair by the user's mappings, then by what a search found from recorded values. Without a search, ops pair under
-- golden's names: by the mapping files, Cell as Module, Mint as Torch, and the tables of APIs and classes. Missing
-- counterparts are expected, and their outcome says why; dtypes of one class are equal.
SET VARIABLE cross_framework = 1;
SET VARIABLE unmatched_is_finding = 0;
CREATE OR REPLACE VIEW op_pairs AS FROM match_renamed;
CREATE OR REPLACE VIEW pairs AS FROM pairs_searched;
CREATE OR REPLACE VIEW verdicts AS FROM verdicts_searched;
