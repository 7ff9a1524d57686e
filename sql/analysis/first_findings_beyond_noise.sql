-- first_findings_beyond_noise: the first op of each (step, rank) that differs by more than float noise.
-- grain: one (step, rank) that differs
-- parameters: the table findings, made of analysis/findings_by_op
FROM findings
WHERE finding <> 'noise'
QUALIFY row_number() OVER (PARTITION BY step, rank ORDER BY place) = 1
ORDER BY step, rank
