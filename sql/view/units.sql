-- units: how many ops of each (step, rank) are how grave.
-- grain: one (step, rank)
-- parameters: the table view_ops
-- counts: by level, from 0 to 7
SELECT
    step,
    rank,
    count(*) AS ops,
    [
        count(*) FILTER (WHERE level = 0),
        count(*) FILTER (WHERE level = 1),
        count(*) FILTER (WHERE level = 2),
        count(*) FILTER (WHERE level = 3),
        count(*) FILTER (WHERE level = 4),
        count(*) FILTER (WHERE level = 5),
        count(*) FILTER (WHERE level = 6),
        count(*) FILTER (WHERE level = 7)
    ] AS counts
FROM view_ops
GROUP BY ALL
ORDER BY step, rank
