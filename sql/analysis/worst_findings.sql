-- worst_findings: the ops with the gravest findings: most errors, then most warnings, then the largest error.
-- grain: one op of one (step, rank)
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
WHERE finding IN ('different', 'noise')
ORDER BY
    (errors > 0) DESC,
    (warnings > 0) DESC,
    cosine ASC NULLS LAST,
    norm_relative DESC NULLS LAST,
    findings.step,
    findings.rank,
    place
LIMIT 5
