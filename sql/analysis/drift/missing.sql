-- missing: the steps and ranks that only golden or only the run has.
-- grain: one step of one side of one run
-- parameters: $runs; the table drift_units
SELECT
    run,
    if(step IS NULL, 'run', 'golden') AS missing_in,
    coalesce(step, golden_step) AS missing_step,
    list(coalesce(rank, golden_rank) ORDER BY coalesce(rank, golden_rank)) AS ranks
FROM drift_units
WHERE step IS NULL OR golden_step IS NULL
GROUP BY run, missing_in, coalesce(step, golden_step)
ORDER BY list_position($runs, run), missing_in, missing_step
