-- searched: the verdicts, with the outcomes inside and structure for rows whose missing counterpart is explained.
-- grain: one row of the comparison
-- verdict: unmatched for an op that the other program skips, although most missing counterparts are no finding here
SELECT
    v.* REPLACE (
        coalesce(left_over.outcome, v.outcome) AS outcome,
        if(left_over.outcome = 'unmatched', 'unmatched', v.verdict) AS verdict,
        if(left_over.reason IS NULL, v.messages, list_append(v.messages, left_over.outcome || ': ' || left_over.reason))
            AS messages
    )
FROM verdicts_default AS v
LEFT JOIN left_over ON left_over.row = v.row
