-- nan: NaN and inf. A norm, a mean or a number of the script that is not finite, or a count of NaN.
-- grain: one series, at its first value of this kind
-- A GradScaler skips steps on purpose whose gradients overflow, and halves its scale. They count only if that does not
-- help: when more steps in a row are skipped than it takes to come from 65 536, where the scale begins, to 1.
WITH
    limits AS (
        SELECT 16 AS most_skipped -- steps in a row
    ),
    marked AS (
        SELECT
            *,
            NOT isfinite(value) OR (metric = 'nans' AND value > 0) AS is_wrong,
            count(*) FILTER (WHERE isfinite(value) AND (metric <> 'nans' OR value = 0)) OVER (
                PARTITION BY rank, name, point, metric
                ORDER BY step, micro_step
            ) AS sound_before
        FROM watched
        WHERE value IS NOT NULL
    ),
    runs AS (
        SELECT
            *,
            count(DISTINCT step) OVER (PARTITION BY rank, name, point, metric, sound_before) AS steps
        FROM marked
        WHERE is_wrong
    )
SELECT
    rank,
    step,
    name,
    point,
    metric,
    value,
    'NaN or inf' AS reason
FROM runs
CROSS JOIN limits
WHERE NOT skipped OR steps > most_skipped
QUALIFY row_number() OVER (PARTITION BY rank, name, point, metric ORDER BY step, micro_step) = 1
