-- first_findings: the first op of each (step, rank) that differs in anything, noise included.
-- grain: one (step, rank) that differs
-- parameters: the tables findings (analysis/findings_by_op) and stacks
SELECT
    findings.step,
    findings.rank,
    op,
    finding,
    rows,
    module,
    user_frame(frames) AS code,
    errors,
    warnings,
    cosine,
    norm_relative
FROM findings
LEFT JOIN stacks USING (step, rank, stack)
QUALIFY row_number() OVER (PARTITION BY findings.step, findings.rank ORDER BY place, rows) = 1
ORDER BY findings.step, findings.rank
