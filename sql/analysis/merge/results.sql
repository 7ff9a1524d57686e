-- results: the rows of a comparison that are merged. `row` says where one stands, and reports/cells.sql passes it on.
-- grain: one row of the comparison of one step
-- parameters: $comparison, $step, $apis (a pattern that the row's name must fit); the view results
SELECT * REPLACE ({'rank': rank, 'row': row} AS row)
FROM results
WHERE
    comparison = $comparison
    AND step = $step
    AND regexp_matches(coalesce(target_name, golden_name), $apis)
