-- rows: where each row leaves golden, and how far it goes.
-- grain: one row of one rank of one run, ordered by when it leaves, then by its largest distance
-- parameters: $runs; the table drift_points
-- leaves_at: the first step of golden at which the row is away; NULL if it never is
SELECT
    run,
    coalesce(golden_rank, rank) AS rank,
    name,
    min(role) AS role,
    min(module) AS module,
    min(golden_step) FILTER (WHERE state = 'away') AS leaves_at,
    arg_min(distance, golden_step) FILTER (WHERE state = 'away') AS distance_there,
    max(distance) AS worst,
    arg_max(golden_step, (distance, -golden_step)) FILTER (WHERE distance IS NOT NULL) AS worst_at,
    count(*) FILTER (WHERE state = 'away') AS steps_away,
    count(distance) AS steps,
    count(*) FILTER (WHERE state LIKE 'missing%') AS steps_missing
FROM drift_points
GROUP BY run, coalesce(golden_rank, rank), name
ORDER BY list_position($runs, run), leaves_at NULLS LAST, worst DESC NULLS LAST, name, rank
