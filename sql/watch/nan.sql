-- nan: NaN and inf. A norm, a mean or a number of the script that is not finite, or a count of NaN.
-- grain: one series, at its first value of this kind
SELECT
    rank,
    step,
    name,
    point,
    metric,
    value,
    'NaN or inf' AS reason
FROM watched
WHERE NOT isfinite(value) OR (metric = 'nans' AND value > 0)
QUALIFY row_number() OVER (PARTITION BY rank, name, point, metric ORDER BY step, micro_step) = 1
