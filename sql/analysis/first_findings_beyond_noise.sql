-- first_findings_beyond_noise: the first op of each (step, rank) that differs by more than float noise.
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
WHERE finding <> 'noise'
QUALIFY row_number() OVER (PARTITION BY findings.step, findings.rank ORDER BY place, rows) = 1
ORDER BY findings.step, findings.rank
