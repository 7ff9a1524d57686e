-- preflight: what two runs begin with; settings pair by name, and nothing is excused.
-- schemas/data/preflight_severities.csv says how severe a difference is.
SET VARIABLE noise_factor = 0;
SET VARIABLE unmatched_is_finding = 1;
CREATE OR REPLACE VIEW op_pairs AS FROM match_exact;
CREATE OR REPLACE VIEW verdicts AS FROM verdicts_settings;
