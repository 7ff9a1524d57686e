-- series_steps: the values of the series that leave golden, with golden's, in order.
-- grain: the last value of one series in one step
-- parameters: run; the tables drift_series_values and drift_series_rows
SELECT
    $run AS run,
    v.step,
    v.rank,
    v.step AS golden_step,
    v.rank AS golden_rank,
    r.name,
    v.target_value AS value,
    v.golden_value AS golden,
    v.difference AS distance,
    if(v.step >= r.leaves_at, 'away', 'near') AS state
FROM drift_series_values AS v
JOIN drift_series_rows AS r
    ON r.rank = v.rank AND r.series_name = v.name AND r.role = v.point AND r.metric = v.metric
QUALIFY row_number() OVER (PARTITION BY v.rank, v.name, v.point, v.metric, v.step ORDER BY v.n DESC) = 1
ORDER BY r.leaves_at, r.name, v.rank, v.step
