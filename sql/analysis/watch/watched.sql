-- watched: the series of a run, as rules see them.
-- grain: one metric of one tensor or number at one point of a step
-- parameters: run; last, the number of the last steps that rules see, NULL for all
SELECT * EXCLUDE (run)
FROM series
WHERE
    run = $run
    AND ($last IS NULL OR step > (SELECT max(step) FROM series WHERE run = $run) - $last)
