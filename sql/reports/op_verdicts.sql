-- op_verdicts: how each op of one (step, rank) ended, for reports that CI reads.
-- grain: one op of the target, or an op that only golden has
-- parameters: the view results
-- verdict: the worst of its rows: error, unreadable, warning, unmatched, pass, or skipped if no row was judged
-- not_compared: how many rows were not compared, by what became of them
-- target_seq, only_golden_seq: the op, as in analysis/findings_by_op
-- What differs only by rounding passes, whatever its numbers say.
WITH
    judged AS (
        SELECT
            *,
            coalesce(target_op, golden_op) AS op,
            if(target_seq IS NULL, golden_seq, NULL) AS only_golden_seq,
            if(difference = 'noise' AND verdict IN ('error', 'warning'), 'pass', verdict) AS final_verdict,
            CASE
                WHEN outcome IN ('inside', 'structure', 'recomputed', 'unmatched', 'unreadable', 'unrecorded') THEN outcome
                WHEN verdict = 'skipped' THEN 'set_aside'
            END AS not_compared
        FROM results
    )
SELECT
    op,
    any_value(module) AS module,
    arg_max(
        final_verdict,
        list_position(['skipped', 'pass', 'unmatched', 'warning', 'unreadable', 'error'], final_verdict)
    ) AS verdict,
    count(*) AS rows,
    count(*) FILTER (WHERE difference = 'different') AS different,
    max(error) AS error,
    list(
        substr(coalesce(target_name, golden_name), length(op) + 2) || ': ' || array_to_string(messages, '; ')
        ORDER BY row
    ) FILTER (WHERE len(messages) > 0 AND final_verdict NOT IN ('pass', 'skipped')) AS findings,
    coalesce(histogram(not_compared), MAP {}) AS not_compared,
    target_seq,
    only_golden_seq
FROM judged
GROUP BY op, target_seq, only_golden_seq
ORDER BY min(row)
