-- same_framework: two runs of one framework; ops of the same name are held against each other.
-- Backward calls pair in order of appearance. Everything else is the default: see docs/rules.md.
CREATE OR REPLACE VIEW op_pairs AS FROM match_exact;
