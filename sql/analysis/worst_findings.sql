-- worst_findings: the ops with the gravest findings: errors, then warnings, then the largest error.
-- grain: one op of one (step, rank)
-- parameters: the table findings, made of analysis/findings_by_op
FROM findings
WHERE finding IN ('different', 'noise')
ORDER BY
    (errors > 0) DESC,
    (warnings > 0) DESC,
    cosine ASC NULLS LAST,
    norm_relative DESC NULLS LAST,
    step,
    rank,
    place
LIMIT 5
