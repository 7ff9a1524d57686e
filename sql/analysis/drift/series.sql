-- series: where the series of a monitored run leave those of golden.
-- grain: one series that leaves golden: a metric of one tensor or number at one point, on one rank
-- parameters: golden, run: the names of both; threshold: the relative difference beyond which a value may have left
-- difference: |target − golden| / max(|target|, |golden|, the mean of golden's last magnitudes); 1 if only one side is
--   finite, or if texts differ
-- Series pair by rank, name, point, metric, step and micro step. Digests, which say nothing about how far, are left out.
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
            0.1 AS stands_out, -- of the threshold
            1e-5 AS negligible -- of the largest gradient of the step
    ),
    residues AS (
        -- gradients that are zero but for rounding, as of a bias ahead of a normalisation; Adam makes steps of them
        SELECT rank, name
        FROM (
            SELECT
                rank,
                name,
                value / max(value) OVER (PARTITION BY run, rank, step, micro_step, point) AS share
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
    ),
    differences AS (
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
    ),
    pasts AS (
        SELECT
            *,
            coalesce(max(difference) OVER (series ROWS BETWEEN UNBOUNDED PRECEDING AND 20 PRECEDING), 0) AS past,
            coalesce(max(difference) OVER (series ROWS BETWEEN UNBOUNDED PRECEDING AND 40 PRECEDING), 0) AS earlier
        FROM differences
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
            arg_max(step, difference) AS largest_step,
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
FROM differences
JOIN left_golden USING (rank, name, point, metric)
CROSS JOIN limits
WHERE
    n BETWEEN first - 19 AND first
    AND (n = first OR difference > greatest(stands_out * $threshold, times * floor))
QUALIFY row_number() OVER (PARTITION BY rank, name, point, metric ORDER BY n) = 1
ORDER BY step, point <> 'logged', name, point, metric, rank
