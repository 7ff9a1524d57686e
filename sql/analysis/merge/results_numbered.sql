-- results_numbered: the rows of a comparison that a sheet has. reports/cells.sql passes `row` on.
-- grain: one row of the comparison of one step
-- parameters: $comparison, $step; the view results, the table merge_numbers
SELECT results.* REPLACE ({'rank': results.rank, 'number': number} AS row)
FROM results
JOIN merge_numbers ON merge_numbers.rank = results.rank AND merge_numbers.place = results.row
WHERE comparison = $comparison AND step = $step
