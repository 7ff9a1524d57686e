-- metrics_missing: how many pairs of one kind lack a row of metrics. It must be 0.
-- grain: one row
SELECT count(*) AS pairs
FROM paired
ANTI JOIN metrics USING (row)
WHERE target_kind = golden_kind AND target_row IS NOT NULL AND golden_row IS NOT NULL
