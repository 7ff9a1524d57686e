-- counts: the number of events of each grade.
-- grain: one grade
-- parameters: the table blame_ranked
SELECT grade, is_downstream, count(*) AS events
FROM blame_ranked
GROUP BY ALL
ORDER BY min(nth)
