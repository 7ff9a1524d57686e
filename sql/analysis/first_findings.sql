-- first_findings: the first op of each (step, rank) that differs in anything, noise included.
-- grain: one (step, rank) that differs
-- parameters: the table findings, made of analysis/findings_by_op
FROM findings
QUALIFY row_number() OVER (PARTITION BY step, rank ORDER BY place) = 1
ORDER BY step, rank
