-- checkpoint: two checkpoints; parameters pair by name, across frameworks and wrappers, and every bit counts.
-- No rounding is excused: what is loaded must be what was saved. A message says what became of a parameter: missing,
-- transposed, in another order, swapped with another, cast, tied or not.
SET VARIABLE noise_factor = 0;
SET VARIABLE unmatched_is_finding = 1;
CREATE OR REPLACE VIEW op_pairs AS FROM match_parameters;
CREATE OR REPLACE VIEW pairs AS FROM pairs_default;
CREATE OR REPLACE VIEW verdicts AS FROM verdicts_parameters;
