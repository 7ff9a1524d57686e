-- summary_ops: the ops that a summary names: of each (step, rank) the first that differs in anything and the first that
--   differs beyond noise, and the worst of all: errors, then warnings, then the largest error.
-- grain: one op under one heading of the summary (first, beyond_noise or worst)
-- parameters: the table findings, made of analysis/findings_by_op; the views results and stacks
WITH
    chosen AS (
        SELECT 'first' AS heading, place AS worth, *
        FROM findings
        QUALIFY row_number() OVER (PARTITION BY step, rank ORDER BY place) = 1
        UNION ALL
        SELECT 'beyond_noise' AS heading, place AS worth, *
        FROM findings
        WHERE finding <> 'noise'
        QUALIFY row_number() OVER (PARTITION BY step, rank ORDER BY place) = 1
        UNION ALL
        SELECT
            'worst' AS heading,
            row_number() OVER (
                ORDER BY
                    (errors > 0) DESC,
                    (warnings > 0) DESC,
                    cosine ASC NULLS LAST,
                    norm_relative DESC NULLS LAST,
                    step,
                    rank,
                    place
            ) AS worth,
            *
        FROM findings
        WHERE finding IN ('different', 'noise')
        QUALIFY worth <= 5
    )
SELECT
    chosen.*,
    coalesce(results.target_op, results.golden_op) AS op,
    results.module,
    user_frame(stacks.frames) AS code
FROM chosen
JOIN results ON results.step = chosen.step AND results.rank = chosen.rank AND results.row = chosen.first_row
LEFT JOIN stacks ON stacks.step = chosen.step AND stacks.rank = chosen.rank AND stacks.stack = results.stack
ORDER BY
    heading,
    if(heading = 'worst', worth, NULL),
    chosen.step,
    chosen.rank
