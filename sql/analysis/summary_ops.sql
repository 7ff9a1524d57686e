-- summary_ops: the ops that a summary names: for each (step, rank) the first that differs at all and the first that
--   differs beyond noise; and the worst of all: errors, then warnings, then the largest error. Of a step, ops that
--   differ come before communication ops that do, since these may have received the difference from another rank.
-- grain: one op under one heading of the summary (first, beyond_noise or worst)
-- parameters: the tables findings (from analysis/findings_by_op), standing and noise_ends; the views results and stacks
WITH
    -- where ops round differently, the first op that stands out of that
    outstanding AS (
        SELECT
            standing.step,
            standing.rank,
            standing.place,
            standing.target_seq,
            if(standing.target_seq IS NULL, standing.golden_seq, NULL) AS only_golden_seq,
            standing.finding,
            false AS is_passing_on,
            coalesce(any_value(errors), 0) AS errors,
            coalesce(any_value(warnings), 0) AS warnings,
            any_value(findings.max_relative_error) AS max_relative_error,
            any_value(findings.cosine) AS cosine,
            any_value(findings.norm_relative) AS norm_relative,
            any_value(findings.reason) AS reason,
            min(results.row) AS first_row,
            coalesce(any_value(leaves), 0) AS leaves
        FROM standing
        JOIN results
            ON results.step = standing.step
            AND results.rank = standing.rank
            AND (
                results.target_seq = standing.target_seq
                OR (standing.target_seq IS NULL AND results.golden_seq = standing.golden_seq)
            )
        LEFT JOIN findings
            ON findings.step = standing.step
            AND findings.rank = standing.rank
            AND (
                findings.target_seq = standing.target_seq
                OR (standing.target_seq IS NULL AND findings.only_golden_seq = standing.golden_seq)
            )
        WHERE nth = 1
        GROUP BY ALL
    ),
    chosen AS (
        SELECT 'first' AS heading, place AS worth, *
        FROM findings
        QUALIFY row_number() OVER (PARTITION BY step, rank ORDER BY place) = 1
        UNION ALL
        SELECT 'beyond_noise' AS heading, place AS worth, *
        FROM findings
        ANTI JOIN noise_ends USING (step, rank)
        WHERE finding <> 'noise'
        QUALIFY row_number() OVER (PARTITION BY step, rank ORDER BY is_passing_on, place) = 1
        UNION ALL
        SELECT 'beyond_noise' AS heading, place AS worth, *
        FROM outstanding
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
    -- the row of an op that golden alone has may be that of a namesake in the target, which is another call
    if(chosen.finding = 'only in golden', standing.module, coalesce(standing.module, results.module)) AS module,
    if(chosen.finding = 'only in golden', NULL, user_frame(stacks.frames)) AS code
FROM chosen
JOIN results ON results.step = chosen.step AND results.rank = chosen.rank AND results.row = chosen.first_row
LEFT JOIN standing
    ON heading = 'beyond_noise' AND nth = 1 AND standing.step = chosen.step AND standing.rank = chosen.rank
LEFT JOIN stacks ON stacks.step = chosen.step AND stacks.rank = chosen.rank AND stacks.stack = results.stack
ORDER BY
    heading,
    if(heading = 'worst', worth, NULL),
    chosen.step,
    chosen.finding = 'different'
    AND regexp_matches(coalesce(results.target_op, results.golden_op), '^((Mint)?Distributed|communication)\.'),
    chosen.rank
