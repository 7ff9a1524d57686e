-- series_steps: the values of the series that leave golden, with golden's, in order.
-- grain: the last value of one series in one step; of long series the value that differs most in each of $points parts
-- parameters: $run; $points: the largest number of parts; the tables drift_series_values and drift_series_rows
WITH
    lasts AS (
        SELECT
            v.step,
            v.rank,
            r.name,
            r.leaves_at,
            v.target_value AS value,
            v.golden_value AS golden,
            v.difference AS distance
        FROM drift_series_values AS v
        JOIN drift_series_rows AS r
            ON r.rank = v.rank AND r.series_name = v.name AND r.role = v.point AND r.metric = v.metric
        QUALIFY row_number() OVER (PARTITION BY v.rank, v.name, v.point, v.metric, v.step ORDER BY v.n DESC) = 1
    ),
    parts AS (
        SELECT *, ntile($points) OVER (PARTITION BY rank, name ORDER BY step) AS part
        FROM lasts
    )
SELECT
    $run AS run,
    step,
    rank,
    step AS golden_step,
    rank AS golden_rank,
    name,
    value,
    golden,
    distance,
    if(step >= leaves_at, 'away', 'near') AS state
FROM parts
QUALIFY
    step = leaves_at
    OR row_number() OVER (PARTITION BY rank, name, part ORDER BY distance DESC, step) = 1
ORDER BY leaves_at, name, rank, step
