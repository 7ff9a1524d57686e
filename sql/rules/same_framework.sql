-- same_framework: two runs of one framework; ops pair by name.
-- Backward calls pair in order of appearance. All else is the default: see docs/rules.md.
CREATE OR REPLACE VIEW op_pairs AS FROM match_exact;
