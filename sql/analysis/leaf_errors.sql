-- leaf_errors: the error of each row of a comparison that is not equal.
-- grain: one leaf: a pair that is not equal, or a row without counterpart
-- parameters: $comparison; the view results
-- error: the difference of the two sides, scaled by the tensor (its norm; norm / √n for the mean, the largest magnitude
--   for max and min), so 1 is as large as the tensor; inf if one side has NaN or inf; 1 for another shape, digest or
--   argument, which have no distance; NULL without counterpart; where the statistics above agree, as of integers, what the
--   noise analysis found. Masked elements (macros/is_mask) are not part of the tensor: then only the other extreme counts.
-- is_other_tensor: of another dtype or shape, or sent or received in another way (is_other_transfer): to another rank, say
-- target_key: the value of the target (macros/extremes_key)
-- is_passed_on: an argument that one side alone gave to a module, which an op in it takes
-- has_late_digest: it differs in a digest alone, which is that of later contents (judge/verdicts)
WITH
    leaves AS (
        SELECT
            step,
            rank,
            row,
            target_seq,
            golden_seq,
            role,
            role = 'input' AND outcome = 'unmatched' AND is_module(coalesce(target_op, golden_op)) AS is_passed_on,
            coalesce(difference, 'unmatched') AS difference,
            coalesce(target_kind, golden_kind) = 'tensor' AS is_tensor,
            target_kind = 'tensor' AND golden_kind = 'tensor' AND same_shape(target_shape, golden_shape, matched_by) AS has_distance,
            measurement,
            euclidean_distance,
            results.error AS error_by_all,
            is_mask(target_max, target_min) OR is_mask(golden_max, golden_min) AS max_is_mask,
            is_mask(target_min, target_max) OR is_mask(golden_min, golden_max) AS min_is_mask,
            if(max_is_mask AND max_diff = 0, NULL, max_diff) AS max_diff,
            if(min_is_mask AND min_diff = 0, NULL, min_diff) AS min_diff,
            mean_diff,
            norm_diff,
            if(max_is_mask OR min_is_mask, NULL, greatest(target_norm, golden_norm)) AS norm,
            greatest(
                if(max_is_mask, NULL, greatest(abs(target_max), abs(golden_max))),
                if(min_is_mask, NULL, greatest(abs(target_min), abs(golden_min)))
            ) AS magnitude,
            root_elements_of(golden_shape) AS root_elements,
            extremes_key(target_max, target_min, target_digest) AS target_key,
            target_extra <> golden_extra AND target_type LIKE '%P2POp' AND golden_type LIKE '%P2POp' AS is_other_transfer,
            target_dtype <> golden_dtype
            OR NOT same_shape(target_shape, golden_shape, matched_by)
            OR coalesce(is_other_transfer, false) AS is_other_tensor,
            list_has_any(messages, [message_of('late digest'), message_of('other zeros')]) AS has_late_digest
        FROM results
        WHERE
            comparison = $comparison
            AND difference IS DISTINCT FROM 'equal'
            AND outcome NOT IN ('skipped', 'unrecorded', 'inside', 'structure', 'recomputed')
            AND (difference IS NOT NULL OR (outcome = 'unmatched' AND verdict <> 'skipped'))
    ),
    scaled AS (
        SELECT
            *,
            greatest(
                abs(max_diff / nullif(magnitude, 0)),
                abs(min_diff / nullif(magnitude, 0)),
                abs(mean_diff * root_elements / nullif(norm, 0)),
                abs(norm_diff / nullif(norm, 0)),
                euclidean_distance / nullif(norm, 0)
            ) AS distance
        FROM leaves
    )
SELECT
    step,
    rank,
    row,
    target_seq,
    golden_seq,
    role,
    is_passed_on,
    difference,
    is_tensor,
    is_other_tensor,
    is_other_transfer,
    has_late_digest,
    target_key,
    CASE
        WHEN difference = 'unmatched' THEN NULL
        WHEN NOT has_distance THEN 1.0
        WHEN measurement = 'nonfinite' OR NOT isfinite(distance) THEN 'inf'::DOUBLE
        ELSE coalesce(nullif(distance, 0), error_by_all, distance, 1.0)
    END AS error
FROM scaled
