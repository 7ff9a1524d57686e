-- watched: the series of a run, as rules see them.
-- grain: one metric of one tensor or number at one point of a step
-- parameters: run; last, the number of the last steps that rules see, NULL for all
-- skipped: whether a GradScaler skipped the step, for gradients alone, which may be inf or NaN in it
SELECT
    * EXCLUDE (run) REPLACE (coalesce(micro_step, 0) AS micro_step),
    (contains(point, 'gradient') OR point = 'agreement')
    AND (rank, step) IN (
        SELECT (rank, step)
        FROM series
        WHERE run = $run AND point = 'scaler' AND metric = 'skipped' AND value > 0
    ) AS skipped
FROM series
WHERE
    run = $run
    AND point <> 'scaler'
    AND ($last IS NULL OR step > (SELECT max(step) FROM series WHERE run = $run) - $last)
