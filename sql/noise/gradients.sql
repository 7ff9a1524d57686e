-- gradients: parameters' gradients that differ although their inputs agree, as when they were not set to zero.
-- grain: one op with parameters' gradients; none unless three quarters of them differ
-- parameters: the tables noise_ops and noise_leaves
-- shift: how much its largest norm moves, relative to itself
-- usual: what three quarters of the other backward ops stay below
WITH
    moved AS (
        SELECT
            number,
            o.direction = 'parameters_grad' AS is_gradient,
            max_by(abs(l.target_norm - l.golden_norm) / l.golden_norm, l.golden_norm) AS shift
        FROM noise_leaves AS l
        JOIN noise_ops AS o USING (number)
        WHERE
            o.phase = 'backward'
            AND l.role IN ('output', 'parameters_grad')
            AND l.is_paired
            AND l.is_like
            AND l.is_float
            AND l.golden_norm > 0
            AND isfinite(l.golden_norm)
            AND isfinite(l.target_norm)
        GROUP BY number, is_gradient
    ),
    others AS (
        SELECT
            count(*) FILTER (WHERE is_gradient) AS gradients,
            quantile_disc(shift, 0.25) FILTER (WHERE is_gradient) AS low,
            coalesce(quantile_disc(shift, 0.75) FILTER (WHERE NOT is_gradient), 0) AS usual
        FROM moved
    )
SELECT number, shift, usual
FROM moved
CROSS JOIN others
WHERE is_gradient AND gradients >= 3 AND low > 0.002 + 5 * usual AND shift > 0.002 + 5 * usual
