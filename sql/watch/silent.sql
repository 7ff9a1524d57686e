-- silent: a rank that is steps behind the others.
-- grain: one rank, at its last step
WITH
    limits AS (
        SELECT 200 AS steps_behind -- more than a rank makes between two of its publications, which come every ten seconds
    ),
    last AS (
        SELECT rank, max(step) AS step
        FROM watched
        GROUP BY rank
    )
SELECT
    rank,
    step,
    NULL AS name,
    NULL AS point,
    NULL AS metric,
    NULL AS value,
    format('rank {} is at step {}, the others at {}', rank, step, (SELECT max(step) FROM last)) AS reason
FROM last
CROSS JOIN limits
WHERE step + steps_behind < (SELECT max(step) FROM last)
