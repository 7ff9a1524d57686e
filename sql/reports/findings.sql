-- findings: the rows with findings, worst first, with the texts of msprobe's table.
-- grain: one row of the comparison of one (step, rank) whose verdict is neither pass nor skipped
-- parameters: the views results, stacks and cells; the macro user_frame
-- order: by verdict; then NaN and infinities at different places, the smallest share of elements within one thousandth,
--        the largest error of an element, the largest error of the norm (NaN and infinity count as largest)
SELECT
    cells.* EXCLUDE (row),
    results.module AS "Module",
    regexp_replace(user_frame(stacks.frames), '\s+', ' ', 'g') AS "Line of code"
FROM results
JOIN cells ON cells.row = results.row
LEFT JOIN stacks ON stacks.stack = results.stack
WHERE results.verdict NOT IN ('pass', 'skipped')
ORDER BY
    list_position(['error', 'warning', 'unmatched', 'unreadable'], results.verdict),
    results.measurement IS NOT DISTINCT FROM 'nonfinite' DESC,
    results.one_thousandth_ratio ASC NULLS LAST,
    results.max_relative_error DESC NULLS LAST,
    results.norm_relative DESC NULLS LAST,
    results.row
