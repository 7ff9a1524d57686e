-- results: the rows of a comparison to merge. `row` is their place, which reports/cells.sql passes on.
-- grain: one row of the comparison of one step
-- parameters: $comparison, $step, $apis (a pattern that the row's name must match); the view results
SELECT * REPLACE ({'rank': rank, 'row': row} AS row)
FROM results
WHERE
    comparison = $comparison
    AND step = $step
    AND regexp_matches(coalesce(target_name, golden_name), $apis)
