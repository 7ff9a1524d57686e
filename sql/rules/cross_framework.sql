-- cross_framework: a MindSpore or mindtorch run against a PyTorch run, or two implementations of one model.
-- Ops pair under the names that golden gives them: by the mapping files if there are any, Cell as Module, Mint as Torch,
-- and the tables of APIs and classes. What has no counterpart is to be expected; dtypes need only be of one class.
SET VARIABLE cross_framework = 1;
SET VARIABLE unmatched_is_finding = 0;
CREATE OR REPLACE VIEW op_pairs AS FROM match_renamed;
