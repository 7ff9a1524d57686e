-- difference: whether the two sides of a pair differ at all, independent of the verdict.
-- grain: one pair with both sides
-- equal: the same, as far as the dumps show (0 and -0 are the same, and so are NaN and NaN; names of devices do not
--   count). noise: within noise_factor spacings of the coarser dtype. different: neither.
-- NULL: unknown. Either no value was recorded on both sides, or a saved tensor cannot be read; then the recorded
-- statistics can show that the two differ, but not that they are equal.
-- Statistics that both units record are compared, scaled by the tensor: max and min by the largest magnitude, the mean by
-- norm / √n, the norm by itself, because a mean near 0 is not a measure of its own error. A mask, such as -1e9, is the
-- scale of itself alone: the other extreme is its own. Of contents, half of the elements must agree to 0.5 % as well, or one
-- large element would be the scale of all; not in bfloat16 and float8, whose spacings are wider than that.
-- The gradient of a parameter is a sum over what enters its module in the backward pass. If that sum is 0 in exact
-- arithmetic, only rounding remains, so those inputs scale it as well. Of a partial sum of ranks the mean alone is known
-- (layouts/merged): it is what can be compared.
-- Adam divides each element of a mean gradient by its own size. Where that is within the rounding of the largest, the
-- quotient has no sure digit, not even its sign: there a step is noise, if what is divided agrees.
-- What an op overwrites may be memory that nothing was written to: it is noise too.
-- Where contents or digests are equal and recorded statistics far apart, one of the two is of another run, as after a second
-- dump into one folder, or of another moment of the tensor: the two sides differ.
WITH
    incoming AS (
        SELECT
            grads.seq,
            max(leaf.norm) AS norm
        FROM target_ops AS grads
        JOIN target_ops AS backward
            ON backward.direction = 'backward'
            AND backward.api = grads.api
            AND backward.module_class = grads.module_class
        JOIN target_leaves AS leaf ON leaf.seq = backward.seq AND leaf.role = 'input' AND isfinite(leaf.norm)
        WHERE grads.direction = 'parameters_grad'
        GROUP BY grads.seq
    ),
    overwriting AS (
        SELECT seq FROM target_ops WHERE direction = 'forward' AND overwrites(api)
    ),
    steps AS (
        SELECT
            target_seq,
            max(abs(TRY_CAST(target_value AS DOUBLE))) FILTER (target_slot = 'input.value') AS step,
            bool_or(target_slot = 'input.2' AND target_min <= getvariable('noise_factor') * epsilon_of(target_dtype) * target_max) AS is_rounding
        FROM paired
        WHERE target_seq IN (SELECT seq FROM target_ops WHERE op LIKE 'Tensor.addcdiv_%') AND role = 'input'
        GROUP BY target_seq
    ),
    -- a dump may leave a statistic out altogether
    recorded AS (
        SELECT
            bool_or(target_max IS NOT NULL) AND bool_or(golden_max IS NOT NULL) AS has_max,
            bool_or(target_min IS NOT NULL) AND bool_or(golden_min IS NOT NULL) AS has_min,
            bool_or(target_mean IS NOT NULL) AND bool_or(golden_mean IS NOT NULL) AS has_mean,
            bool_or(target_norm IS NOT NULL) AND bool_or(golden_norm IS NOT NULL) AS has_norm
        FROM paired
    ),
    sides AS (
        SELECT
            p.* REPLACE (
                if(has_max, target_max, NULL) AS target_max,
                if(has_max, golden_max, NULL) AS golden_max,
                if(has_min, target_min, NULL) AS target_min,
                if(has_min, golden_min, NULL) AS golden_min,
                if(has_mean, target_mean, NULL) AS target_mean,
                if(has_mean, golden_mean, NULL) AS golden_mean,
                if(has_norm, target_norm, NULL) AS target_norm,
                if(has_norm, golden_norm, NULL) AS golden_norm
            ),
            if(p.role <> 'input' AND steps.is_rounding, 2 * steps.step, NULL) AS step,
            m.values_equal,
            m.measurement,
            m.max_diff,
            m.min_diff,
            m.mean_diff,
            m.norm_diff,
            m.max_abs_error,
            m.euclidean_distance,
            m.scale_max,
            m.scale_norm,
            rounding_band(greatest(epsilon_of(target_dtype), epsilon_of(golden_dtype))) AS noise,
            coalesce(incoming.norm, 0) AS incoming_norm,
            greatest(
                coalesce(incoming.norm, 0),
                magnitude_of(target_max, target_min),
                magnitude_of(golden_max, golden_min)
            ) AS magnitude,
            is_mask(target_max, target_min) OR is_mask(golden_max, golden_min) AS max_is_mask,
            is_mask(target_min, target_max) OR is_mask(golden_min, golden_max) AS min_is_mask,
            coalesce(m.five_thousandths_ratio >= 0.5, true)
            OR coalesce(incoming.norm > 0, false)
            OR greatest(epsilon_of(target_dtype), epsilon_of(golden_dtype)) > 2.0 ** -10 AS agrees_by_element,
            greatest(target_norm, golden_norm, incoming.norm) AS norm,
            root_elements_of(golden_shape) AS root_elements,
            target_data_name IS NOT NULL
            AND golden_data_name IS NOT NULL
            AND (content_problem IS NOT NULL OR coalesce(m.measurement = 'unreadable', false)) AS is_unreadable,
            other_digest(target_digest, golden_digest) IS NULL
            AND coalesce(
                target_max + golden_max,
                target_min + golden_min,
                target_mean + golden_mean,
                target_norm + golden_norm
            ) IS NULL
            AND target_shape IS NOT DISTINCT FROM golden_shape
            AND coalesce(list_aggregate(golden_shape, 'product'), 1) <> 0 AS is_unrecorded,
            p.role = 'input'
            AND target_slot = 'input.0'
            AND target_kind = 'tensor'
            AND same_dtype(target_dtype, golden_dtype)
            AND same_shape(target_shape, golden_shape, matched_by)
            AND p.target_seq IN (FROM overwriting) AS is_overwritten,
            coalesce(target_max, target_min, target_norm) IS NULL OR coalesce(golden_max, golden_min, golden_norm) IS NULL AS has_mean_alone
        FROM paired AS p
        CROSS JOIN recorded
        LEFT JOIN metrics AS m ON m.row = p.row
        LEFT JOIN incoming ON incoming.seq = p.target_seq
        LEFT JOIN steps ON steps.target_seq = p.target_seq
        WHERE target_row IS NOT NULL AND golden_row IS NOT NULL
    ),
    scaled AS (
        SELECT
            *,
            if(min_is_mask AND NOT max_is_mask, greatest(incoming_norm, abs(target_max), abs(golden_max)), magnitude) AS max_scale,
            if(max_is_mask AND NOT min_is_mask, greatest(incoming_norm, abs(target_min), abs(golden_min)), magnitude) AS min_scale,
            are_far_apart(target_norm, golden_norm, target_max, golden_max, target_min, golden_min) AS are_other_statistics
        FROM sides
    ),
    judged AS (
        SELECT
            row,
            is_unreadable,
            is_overwritten,
            CASE
                -- msprobe records a complex number as null
                WHEN
                    'null' IN (target_kind, golden_kind)
                    AND 'complex' IN (target_type, golden_type)
                    AND NOT coalesce((SELECT are_collected FROM comparison_kind), false)
                    THEN NULL
                WHEN target_kind <> golden_kind THEN 'different'
                WHEN target_kind = 'null' THEN 'equal'
                WHEN target_kind <> 'tensor'
                    THEN
                        CASE
                            WHEN is_device(target_value) AND is_device(golden_value) THEN 'equal'
                            WHEN NOT same_extra(target_extra, golden_extra) THEN 'different'
                            WHEN NOT same_type(target_type, golden_type) THEN 'different'
                            WHEN same_value(target_value, golden_value) OR (max_diff = 0 AND isfinite(target_number)) THEN 'equal'
                            ELSE 'different'
                        END
                WHEN
                    NOT same_dtype(target_dtype, golden_dtype)
                    OR NOT same_shape(target_shape, golden_shape, matched_by)
                    OR NOT same_extra(target_extra, golden_extra)
                    THEN 'different'
                WHEN values_equal OR target_content = golden_content THEN if(are_other_statistics, 'different', 'equal')
                WHEN
                    step IS NOT NULL
                    AND noise > 0
                    AND coalesce(max_abs_error, greatest(abs(max_diff), abs(min_diff), abs(norm_diff), abs(mean_diff))) > 0
                    AND is_within(coalesce(max_abs_error, greatest(abs(max_diff), abs(min_diff), abs(norm_diff) / root_elements)), step)
                    THEN 'noise'
                WHEN NOT values_equal AND NOT is_unreadable
                    THEN
                        if(
                            measurement IN ('measured', 'scalar')
                            AND agrees_by_element
                            AND (is_within(max_diff, noise * max_scale) OR same_statistic(target_max, golden_max))
                            AND (is_within(min_diff, noise * min_scale) OR same_statistic(target_min, golden_min))
                            AND is_within(max_abs_error, noise * greatest(scale_max, incoming_norm))
                            AND (euclidean_distance IS NULL OR is_within(euclidean_distance, noise * greatest(scale_norm, incoming_norm))),
                            'noise',
                            'different'
                        )
                WHEN other_digest(target_digest, golden_digest) THEN 'different'
                WHEN is_unrecorded THEN NULL
                WHEN NOT other_digest(target_digest, golden_digest) THEN if(are_other_statistics, 'different', 'equal')
                WHEN
                    same_statistic(target_max, golden_max)
                    AND same_statistic(target_min, golden_min)
                    AND same_statistic(target_mean, golden_mean)
                    AND same_statistic(target_norm, golden_norm)
                    AND coalesce(target_max_int = golden_max_int, true)
                    AND coalesce(target_min_int = golden_min_int, true)
                    THEN 'equal'
                WHEN
                    has_mean_alone
                    THEN
                        CASE
                            WHEN mean_diff = 0 THEN 'equal'
                            WHEN noise > 0 AND is_within(mean_diff, noise * norm / root_elements) THEN 'noise'
                            ELSE 'different'
                        END
                WHEN
                    noise > 0
                    AND (is_within(max_diff, noise * max_scale) OR same_statistic(target_max, golden_max))
                    AND (is_within(min_diff, noise * min_scale) OR same_statistic(target_min, golden_min))
                    AND (is_within(mean_diff, noise * norm / root_elements) OR same_statistic(target_mean, golden_mean))
                    AND (is_within(norm_diff, noise * norm) OR same_statistic(target_norm, golden_norm))
                    THEN 'noise'
                ELSE 'different'
            END AS difference
        FROM scaled
    )
SELECT
    row,
    CASE
        WHEN is_unreadable AND difference <> 'different' THEN NULL
        WHEN is_overwritten AND difference = 'different' THEN 'noise'
        ELSE difference
    END AS difference
FROM judged
