-- points: the metric of every row at every step and rank of every run, with golden's.
-- grain: one row of one pair of units of one run; also if only one side has the row or the unit
-- parameters: $golden, $metric, $threshold; the variable noise_factor; the tables drift_units, drift_leaves,
--   drift_incoming and repeat_rows
-- distance: the difference of value and golden, scaled by golden's tensor: the norm by itself, the mean by norm / √n,
--   max and min by the largest magnitude; parameter gradients by what enters their module in the backward pass, if that
--   is larger. The metric error is the largest of these distances, or, if only digests were recorded, 1 if they differ.
--   It is inf if only one side has NaN or inf. Digests that two algorithms made are left out.
-- state: equal, noise (within the rounding_band of the coarser dtype, or three times the tensor's error in repeats of
--   golden), near (within the threshold), away, missing in run, missing in golden
WITH
    expected AS (
        SELECT
            units.run,
            units.step,
            units.rank,
            golden_step,
            golden_rank,
            leaves.* EXCLUDE (run, step, rank),
            coalesce(incoming.norm, 0) AS incoming
        FROM drift_units AS units
        JOIN drift_leaves AS leaves
            ON leaves.run = $golden AND leaves.step = golden_step AND leaves.rank = golden_rank
        LEFT JOIN drift_incoming AS incoming
            ON incoming.step = golden_step
            AND incoming.rank = golden_rank
            AND incoming.op = leaves.op
            AND leaves.role = 'parameters_grad'
    ),
    found AS (
        SELECT
            golden_step,
            golden_rank,
            leaves.*
        FROM drift_leaves AS leaves
        JOIN drift_units AS units USING (run, step, rank)
    ),
    repeated AS (
        SELECT step, rank, golden_row, max(error) AS error FROM repeat_rows GROUP BY ALL
    ),
    sides AS (
        SELECT
            coalesce(e.run, f.run) AS run,
            coalesce(e.step, f.step) AS step,
            coalesce(e.rank, f.rank) AS rank,
            coalesce(e.golden_step, f.golden_step) AS golden_step,
            coalesce(e.golden_rank, f.golden_rank) AS golden_rank,
            coalesce(e.name, f.name) AS name,
            coalesce(e.role, f.role) AS role,
            coalesce(e.module, f.module) AS module,
            greatest(
                rounding_band(greatest(e.epsilon, f.epsilon)), getvariable('repeat_factor') * repeated.error
            ) AS noise,
            greatest(e.incoming, if(isfinite(e.norm), e.norm, 0)) AS scale,
            greatest(e.incoming, magnitude_of(e.max, e.min), 0) AS magnitude,
            e.max IS NULL
            AND f.max IS NULL
            AND e.norm IS NULL
            AND f.norm IS NULL
            AND (e.digest IS NULL OR f.digest IS NULL OR other_digest(f.digest, e.digest) IS NOT NULL) AS has_digest_only,
            list_filter(
                [
                    {'metric': 'norm', 'value': f.norm, 'golden': e.norm, 'scale': scale},
                    {
                        'metric': 'mean',
                        'value': f.mean,
                        'golden': e.mean,
                        'scale': if(e.norm IS NULL, magnitude, scale / e.root_elements)
                    },
                    {'metric': 'max', 'value': f.max, 'golden': e.max, 'scale': magnitude},
                    {'metric': 'min', 'value': f.min, 'golden': e.min, 'scale': magnitude},
                    {
                        'metric': 'digest',
                        'value': if(
                            has_digest_only AND f.digest IS NOT NULL,
                            coalesce(other_digest(f.digest, e.digest), true)::DOUBLE,
                            NULL
                        ),
                        'golden': if(has_digest_only AND e.digest IS NOT NULL, 0.0, NULL),
                        'scale': 1.0
                    }
                ],
                lambda statistic: statistic.metric = $metric OR $metric = 'error'
            ) AS statistics
        FROM expected AS e
        FULL JOIN found AS f
            ON f.run = e.run
            AND f.golden_step = e.golden_step
            AND f.golden_rank = e.golden_rank
            AND f.name = e.name
        LEFT JOIN repeated
            ON repeated.step = e.golden_step AND repeated.rank = e.golden_rank AND repeated.golden_row = e.row
    ),
    measured AS (
        SELECT
            run,
            step,
            rank,
            golden_step,
            golden_rank,
            name,
            role,
            module,
            noise,
            list_max(list_transform(statistics, lambda statistic: statistic.value)) AS recorded,
            list_max(list_transform(statistics, lambda statistic: statistic.golden)) AS golden_recorded,
            list_max(
                list_transform(
                    statistics,
                    lambda statistic: CASE
                        WHEN statistic.value IS NULL OR statistic.golden IS NULL THEN NULL
                        WHEN statistic.value = statistic.golden THEN 0.0
                        WHEN
                            NOT isfinite(statistic.value)
                            OR NOT isfinite(statistic.golden)
                            OR coalesce(statistic.scale, 0) = 0
                            THEN 'inf'::DOUBLE
                        ELSE abs(statistic.value - statistic.golden) / statistic.scale
                    END
                )
            ) AS distance
        FROM sides
    )
SELECT
    * EXCLUDE (noise, recorded, golden_recorded, distance),
    $metric AS metric,
    if($metric = 'error', distance, recorded) AS value,
    if($metric = 'error', if(golden_recorded IS NULL, NULL, 0.0), golden_recorded) AS golden,
    distance,
    CASE
        WHEN recorded IS NULL THEN 'missing in run'
        WHEN golden_recorded IS NULL THEN 'missing in golden'
        WHEN distance IS NULL THEN 'missing in run' -- what golden recorded
        WHEN distance = 0 THEN 'equal'
        WHEN distance <= noise THEN 'noise'
        WHEN distance <= $threshold THEN 'near'
        ELSE 'away'
    END AS state
FROM measured
WHERE recorded IS NOT NULL OR golden_recorded IS NOT NULL
