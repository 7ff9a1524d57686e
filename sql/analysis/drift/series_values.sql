-- series_values: the values of the series of a monitored run beside those of golden.
-- grain: one value that both have: a metric of one tensor or number at one point of a step, on one rank
-- parameters: $golden, $run: the names of both
-- difference: |target − golden| / max(|target|, |golden|, the mean of golden's last magnitudes); 1 if only one side is
--   finite, or if texts differ
-- n: the place in its series
-- Series pair by rank, name, point, metric, step and micro step. Digests, which say nothing about how far, are left out.
WITH
    limits AS (
        SELECT 1e-5 AS negligible -- of the largest gradient of the step
    ),
    residues AS (
        -- gradients that are zero but for rounding, as of a bias ahead of a normalisation; Adam makes steps of them
        SELECT rank, name
        FROM (
            SELECT
                rank,
                name,
                value / nullif(max(value) OVER (PARTITION BY run, rank, step, micro_step, point), 0) AS share
            FROM series
            WHERE
                run IN ($golden, $run)
                AND point IN ('gradient', 'gradient_unreduced')
                AND metric = 'norm'
                AND isfinite(value)
        )
        CROSS JOIN limits
        GROUP BY rank, name, negligible
        HAVING max(share) > 0 AND quantile_cont(share, 0.9) < negligible
    ),
    paired AS (
        SELECT
            target.rank,
            target.step,
            target.micro_step,
            target.name,
            target.point,
            target.metric,
            target.value AS target_value,
            golden.value AS golden_value,
            target.text AS target_text,
            golden.text AS golden_text,
            row_number() OVER series AS n,
            avg(abs(golden.value)) FILTER (WHERE isfinite(golden.value)) OVER (
                series
                ROWS BETWEEN 20 PRECEDING AND CURRENT ROW
            ) AS usual
        FROM series AS target
        JOIN series AS golden
            ON golden.run = $golden
            AND golden.rank = target.rank
            AND golden.step = target.step
            AND golden.micro_step IS NOT DISTINCT FROM target.micro_step
            AND golden.name = target.name
            AND golden.point = target.point
            AND golden.metric = target.metric
        ANTI JOIN residues ON target.rank = residues.rank AND target.name = residues.name
        WHERE target.run = $run AND target.metric NOT IN ('digest', 'md5') AND target.point <> 'scaler'
        WINDOW series AS (
            PARTITION BY target.rank, target.name, target.point, target.metric
            ORDER BY target.step, target.micro_step NULLS FIRST
        )
    )
SELECT
    *,
    CASE
        WHEN target_text IS DISTINCT FROM golden_text THEN 1.0
        WHEN target_text IS NOT NULL THEN 0.0
        WHEN isnan(target_value) AND isnan(golden_value) OR target_value = golden_value THEN 0.0
        WHEN NOT isfinite(target_value) OR NOT isfinite(golden_value) THEN 1.0
        ELSE abs(target_value - golden_value) / greatest(abs(target_value), abs(golden_value), usual)
    END AS difference,
    target_text IS DISTINCT FROM golden_text
    OR isfinite(target_value) IS DISTINCT FROM isfinite(golden_value) AS is_another_kind
FROM paired
