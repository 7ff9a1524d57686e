-- difference: whether the two sides of a pair differ at all, whatever a verdict makes of it.
-- grain: one pair with both sides
-- equal: the same, as far as the dumps can tell (0 and -0, and NaN and NaN, are the same; device names are no values);
-- noise: within noise_factor spacings of the coarser dtype; different: neither.
-- Statistics are scaled by the tensor: max and min by the larger magnitude, the mean by norm / √n, the norm by itself,
-- because a mean near 0 says nothing relative to itself.
WITH
    sides AS (
        SELECT
            p.*,
            m.* EXCLUDE (row),
            getvariable('noise_factor') * greatest(epsilon_of(target_dtype), epsilon_of(golden_dtype)) AS noise,
            greatest(
                if(isfinite(target_max), abs(target_max), 0),
                if(isfinite(target_min), abs(target_min), 0),
                if(isfinite(golden_max), abs(golden_max), 0),
                if(isfinite(golden_min), abs(golden_min), 0)
            ) AS magnitude,
            greatest(target_norm, golden_norm) AS norm,
            sqrt(greatest(coalesce(list_aggregate(golden_shape, 'product'), 1), 1)) AS root_elements
        FROM paired AS p
        LEFT JOIN metrics AS m ON m.row = p.row
        WHERE target_row IS NOT NULL AND golden_row IS NOT NULL
    )
SELECT
    row,
    CASE
        WHEN target_kind <> golden_kind THEN 'different'
        WHEN target_kind = 'null' THEN 'equal'
        WHEN target_kind <> 'tensor'
            THEN
                CASE
                    WHEN is_device(target_value) AND is_device(golden_value) THEN 'equal'
                    WHEN target_extra IS DISTINCT FROM golden_extra THEN 'different'
                    WHEN target_value IS NOT DISTINCT FROM golden_value
                        THEN if(target_type IS NOT DISTINCT FROM golden_type, 'equal', 'different')
                    WHEN target_type = golden_type AND max_diff = 0 THEN 'equal'
                    ELSE 'different'
                END
        WHEN
            target_dtype <> golden_dtype
            OR target_shape <> golden_shape
            OR target_extra IS DISTINCT FROM golden_extra
            THEN 'different'
        WHEN values_equal THEN 'equal'
        WHEN NOT values_equal
            THEN
                if(
                    measurement IN ('measured', 'scalar')
                    AND is_within(max_abs_error, noise * scale_max)
                    AND (euclidean_distance IS NULL OR is_within(euclidean_distance, noise * scale_norm)),
                    'noise',
                    'different'
                )
        WHEN target_digest <> golden_digest THEN 'different'
        WHEN target_digest = golden_digest THEN 'equal'
        WHEN
            target_max IS NOT DISTINCT FROM golden_max
            AND target_min IS NOT DISTINCT FROM golden_min
            AND target_mean IS NOT DISTINCT FROM golden_mean
            AND target_norm IS NOT DISTINCT FROM golden_norm
            AND coalesce(target_max_int = golden_max_int, true)
            AND coalesce(target_min_int = golden_min_int, true)
            THEN 'equal'
        WHEN
            noise > 0
            AND is_within(max_diff, noise * magnitude)
            AND is_within(min_diff, noise * magnitude)
            AND (mean_diff IS NULL OR is_within(mean_diff, noise * norm / root_elements))
            AND (norm_diff IS NULL OR is_within(norm_diff, noise * norm))
            THEN 'noise'
        ELSE 'different'
    END AS difference
FROM sides
