-- comparisons: what each comparison of the lake found.
-- grain: one comparison
-- parameters: the view results
SELECT
    comparison,
    count(DISTINCT (step, rank)) AS units,
    count(*) AS rows,
    count(*) FILTER (WHERE difference = 'different') AS different,
    count(*) FILTER (WHERE verdict = 'error') AS errors,
    count(*) FILTER (WHERE verdict = 'warning') AS warnings,
    count(*) FILTER (WHERE outcome = 'unmatched') AS unmatched,
    count(*) FILTER (WHERE outcome = 'unreadable') AS unreadable
FROM results
GROUP BY comparison
ORDER BY comparison
