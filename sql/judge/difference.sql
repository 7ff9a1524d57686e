-- difference: whether the two sides of a pair differ at all, whatever a verdict makes of it.
-- grain: one pair with both sides
-- equal: the same, as far as the dumps can tell (0 and -0, and NaN and NaN, are the same; device names are no values);
-- noise: within noise_factor spacings of the coarser dtype; different: neither.
-- Statistics are scaled by the tensor: max and min by the larger magnitude, the mean by norm / √n, the norm by itself,
-- because a mean near 0 says nothing relative to itself.
WITH
    sides AS (
        SELECT
            m.*,
            t.kind AS target_kind,
            g.kind AS golden_kind,
            t.type AS target_type,
            g.type AS golden_type,
            t.value AS target_value,
            g.value AS golden_value,
            t.extra IS NOT DISTINCT FROM g.extra AS same_extra,
            t.dtype IS NOT DISTINCT FROM g.dtype AS same_dtype,
            t.shape IS NOT DISTINCT FROM g.shape AS same_shape,
            t.stat_types IS NOT DISTINCT FROM g.stat_types AS same_letters,
            t.digest AS target_digest,
            g.digest AS golden_digest,
            t.max IS NOT DISTINCT FROM g.max
            AND t.min IS NOT DISTINCT FROM g.min
            AND t.mean IS NOT DISTINCT FROM g.mean
            AND t.norm IS NOT DISTINCT FROM g.norm
            AND t.max_int IS NOT DISTINCT FROM g.max_int
            AND t.min_int IS NOT DISTINCT FROM g.min_int
                AS same_statistics,
            getvariable('noise_factor') * greatest(epsilon_of(t.dtype), epsilon_of(g.dtype)) AS noise,
            greatest(abs(t.max), abs(t.min), abs(g.max), abs(g.min)) AS magnitude,
            greatest(t.norm, g.norm) AS norm,
            sqrt(greatest(coalesce(list_aggregate(g.shape, 'product'), 1), 1)) AS root_elements
        FROM metrics AS m
        JOIN pairing USING (row)
        JOIN target AS t ON t.row = pairing.target_row
        JOIN golden AS g ON g.row = pairing.golden_row
    )
SELECT
    row,
    CASE
        WHEN target_kind <> golden_kind THEN 'different'
        WHEN target_kind = 'null' THEN 'equal'
        WHEN target_kind <> 'tensor' THEN
            CASE
                WHEN is_device(target_value) AND is_device(golden_value) THEN 'equal'
                WHEN NOT same_extra THEN 'different'
                WHEN target_value IS NOT DISTINCT FROM golden_value THEN
                    if(target_type IS NOT DISTINCT FROM golden_type, 'equal', 'different')
                WHEN target_type = golden_type AND max_diff = 0 THEN 'equal'
                ELSE 'different'
            END
        WHEN NOT same_dtype OR NOT same_shape OR NOT same_extra THEN 'different'
        WHEN values_equal IS NOT NULL THEN
            CASE
                WHEN values_equal THEN 'equal'
                WHEN
                    measurement IN ('measured', 'scalar')
                    AND max_abs_error <= noise * golden_max_abs
                    AND coalesce(euclidean_distance <= noise * golden_norm, true)
                    THEN 'noise'
                ELSE 'different'
            END
        WHEN target_digest IS NOT NULL AND golden_digest IS NOT NULL THEN
            if(target_digest = golden_digest, 'equal', 'different')
        WHEN same_statistics AND same_letters THEN 'equal'
        WHEN
            noise > 0
            AND coalesce(abs(max_diff) <= noise * magnitude, false)
            AND coalesce(abs(min_diff) <= noise * magnitude, false)
            AND coalesce(abs(mean_diff) <= noise * norm / root_elements, mean_diff IS NULL)
            AND coalesce(abs(norm_diff) <= noise * norm, norm_diff IS NULL)
            THEN 'noise'
        ELSE 'different'
    END AS difference
FROM sides
