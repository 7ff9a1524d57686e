-- results: the rows of a comparison to merge. reports/cells.sql passes `row` on.
-- grain: one row of the comparison of one step
-- parameters: $comparison, $step, $apis (a pattern that the row's name must match); the view results
SELECT * REPLACE ({'rank': rank, 'place': row} AS row)
FROM results
WHERE
    comparison = $comparison
    AND step = $step
    AND regexp_matches(coalesce(target_name, golden_name), $apis)
