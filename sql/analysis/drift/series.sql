-- series: where the series of a monitored run leave those of golden.
-- grain: one series that leaves golden: a metric of one tensor or number at one point, on one rank
-- parameters: golden, run: the names of both; threshold: the relative difference beyond which a value has left
-- difference: |target − golden| / max(|target|, |golden|); 1 if only one side is finite, or if texts differ
-- Series pair by rank, name, point, metric, step and micro step. A series that leaves earlier comes first, and in one
-- step what the script logged, such as the loss.
WITH
    pairs AS (
        SELECT
            target.rank,
            target.step,
            target.micro_step,
            target.name,
            target.point,
            target.metric,
            coalesce(format('{:.6g}', golden.value), golden.text) AS golden,
            coalesce(format('{:.6g}', target.value), target.text) AS target,
            CASE
                WHEN target.text IS DISTINCT FROM golden.text THEN 1.0
                WHEN target.text IS NOT NULL THEN 0.0
                WHEN isnan(target.value) AND isnan(golden.value) OR target.value = golden.value THEN 0.0
                WHEN NOT isfinite(target.value) OR NOT isfinite(golden.value) THEN 1.0
                ELSE abs(target.value - golden.value) / greatest(abs(target.value), abs(golden.value))
            END AS difference
        FROM series AS target
        JOIN series AS golden
            ON golden.run = $golden
            AND golden.rank = target.rank
            AND golden.step = target.step
            AND golden.micro_step IS NOT DISTINCT FROM target.micro_step
            AND golden.name = target.name
            AND golden.point = target.point
            AND golden.metric = target.metric
        WHERE target.run = $run
    ),
    left_golden AS (
        SELECT
            rank,
            name,
            point,
            metric,
            min(step) FILTER (WHERE difference > $threshold) AS first_step,
            arg_min(golden, (step, micro_step)) FILTER (WHERE difference > $threshold) AS golden_then,
            arg_min(target, (step, micro_step)) FILTER (WHERE difference > $threshold) AS target_then,
            arg_min(difference, (step, micro_step)) FILTER (WHERE difference > $threshold) AS difference_then,
            max(difference) AS largest,
            arg_max(step, difference) AS largest_step,
            count(DISTINCT step) AS steps
        FROM pairs
        GROUP BY rank, name, point, metric
    )
SELECT
    rank,
    first_step AS step,
    name,
    point,
    metric,
    golden_then AS golden,
    target_then AS target,
    difference_then AS difference,
    largest,
    largest_step,
    steps
FROM left_golden
WHERE first_step IS NOT NULL
ORDER BY step, point <> 'logged', name, point, metric, rank
