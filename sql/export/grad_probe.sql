-- grad_probe: the gradients of a monitored run as the files of msprobe's grad_probe.
-- grain: one gradient in one step on one rank; a line of a file
-- parameters: run
-- Of several updates in a step the last one counts.
-- shares: the intervals and the shares of elements in them, in ascending order as they were measured
SELECT
    rank,
    step,
    name,
    any_value(text) FILTER (WHERE metric = 'md5') AS md5,
    any_value(value) FILTER (WHERE metric = 'max') AS max,
    any_value(value) FILTER (WHERE metric = 'min') AS min,
    any_value(value) FILTER (WHERE metric = 'norm') AS norm,
    any_value(text) FILTER (WHERE metric = 'shape') AS shape,
    any_value(signs) FILTER (WHERE metric = 'signs') AS signs,
    list((metric, value) ORDER BY metric) FILTER (WHERE starts_with(metric, '(') OR metric = '=0') AS shares
FROM (
    FROM series
    WHERE run = $run AND point = 'gradient'
    QUALIFY coalesce(micro_step, 0) = max(coalesce(micro_step, 0)) OVER (PARTITION BY rank, step, name)
)
GROUP BY rank, step, name
ORDER BY rank, step, name
