-- monitored: the monitored runs of a lake.
-- grain: one run
SELECT
    run AS monitored,
    count(DISTINCT rank) AS ranks,
    count(DISTINCT step) AS steps,
    max(step) AS last_step,
    count(DISTINCT (name, point, metric)) AS series,
    count(*) AS rows
FROM series
GROUP BY run
ORDER BY run
