-- steps: the metric of every row at every step and rank of every run, with golden's, in order.
-- grain: as in points.sql
-- parameters: $runs; the table drift_points
SELECT
    run,
    step,
    rank,
    golden_step,
    golden_rank,
    name,
    role,
    metric,
    value,
    golden,
    distance,
    state
FROM drift_points
ORDER BY list_position($runs, run), name, coalesce(golden_rank, rank), coalesce(golden_step, step)
