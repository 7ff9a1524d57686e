-- series: where the series of a monitored run leave those of golden.
-- grain: one series that leaves golden: a metric of one tensor or number at one point, on one rank
-- parameters: $threshold: the relative difference beyond which a value may have left; the table drift_series_values
-- Rounding grows slowly from step to step, since training is chaotic (E. N. Lorenz, Deterministic nonperiodic flow,
-- 1963); a defect grows at once. So a series leaves golden where its difference is beyond the threshold and many times
-- what the largest one until 20 values ago would have come to at the pace of the 20 values before. It began in the
-- first of the values in between that stands out.
-- A series that leaves earlier comes first, and in one step what the script logged, such as the loss.
WITH
    limits AS (
        SELECT
            30.0 AS times, -- what the difference until 20 values ago came to by now, at its pace
            1e-7 AS rounding,
            0.1 AS stands_out -- of the threshold
    ),
    pasts AS (
        SELECT
            *,
            coalesce(max(difference) OVER (series ROWS BETWEEN UNBOUNDED PRECEDING AND 20 PRECEDING), 0) AS past,
            coalesce(max(difference) OVER (series ROWS BETWEEN UNBOUNDED PRECEDING AND 40 PRECEDING), 0) AS earlier
        FROM drift_series_values
        WINDOW series AS (PARTITION BY rank, name, point, metric ORDER BY n)
    ),
    floors AS (
        -- what the difference comes to if it goes on growing as before
        SELECT
            *,
            past * greatest(1, past / greatest(earlier, rounding)) AS floor
        FROM pasts
        CROSS JOIN limits
    ),
    leaving AS (
        SELECT
            *,
            is_another_kind OR difference > greatest($threshold, times * floor) AS leaves
        FROM floors
    ),
    left_golden AS (
        SELECT
            rank,
            name,
            point,
            metric,
            min(n) FILTER (WHERE leaves) AS first,
            arg_min(floor, n) FILTER (WHERE leaves) AS floor,
            max(difference) AS largest,
            arg_max(step, (difference, -n)) FILTER (WHERE difference IS NOT NULL) AS largest_step,
            count(DISTINCT step) AS steps
        FROM leaving
        GROUP BY rank, name, point, metric
        HAVING first IS NOT NULL
    )
SELECT
    rank,
    step,
    name,
    point,
    metric,
    coalesce(format('{:.6g}', golden_value), golden_text) AS golden,
    coalesce(format('{:.6g}', target_value), target_text) AS target,
    difference,
    largest,
    largest_step,
    steps
FROM drift_series_values
JOIN left_golden USING (rank, name, point, metric)
CROSS JOIN limits
WHERE
    n BETWEEN first - 19 AND first
    AND (n = first OR difference > greatest(stands_out * $threshold, times * floor))
QUALIFY row_number() OVER (PARTITION BY rank, name, point, metric ORDER BY n) = 1
ORDER BY step, point <> 'logged', name, point, metric, rank
