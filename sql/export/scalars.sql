-- scalars: the numbers of a run's series, as TensorBoard shows them.
-- grain: one metric of one tensor or number at one point of a step and micro step
-- parameters: run
SELECT
    rank,
    step,
    if(point = 'logged', name, format('{}_{}/{}', point, metric, name)) AS tag,
    value
FROM series
WHERE run = $run AND value IS NOT NULL
ORDER BY rank, step, tag, micro_step NULLS FIRST
