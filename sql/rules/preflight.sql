-- preflight: what two runs begin with; settings pair by name, and nothing is excused.
-- schemas/data/preflight_severities.csv says how severe a difference is.
SELECT error('one of the two is no preflight; collect with preflight=True, or give folders of lakeprobe preflight pack')
FROM comparison_kind
WHERE dumped <> 'settings';
SET VARIABLE noise_factor = 0;
SET VARIABLE unmatched_is_finding = 1;
CREATE OR REPLACE VIEW op_pairs AS FROM match_exact;
CREATE OR REPLACE VIEW verdicts AS FROM verdicts_settings;
