-- outcomes_of: the results of one comparison of the lake, for analysis/outcomes.
-- grain: one row of the comparison
-- parameters: $comparison; the view results
FROM main.results
WHERE comparison = $comparison
