-- tensor: metrics of the saved tensors themselves.
-- grain: one pair whose two tensors were read
-- Formulas: lakeprobe/tensors/metrics.py. Each distinct pair of contents is measured once (relative errors are not
-- symmetric, so the order matters); where both contents are the same, the result is known and nothing is read.
-- One tensor that lies otherwise in the two units is measured as the search laid it out (match/search_layouts); where it
-- found no layout, other shapes and elements in another order are told by their statistics.
WITH
    readable AS (
        SELECT
            row,
            paired.target_content,
            paired.golden_content,
            if(
                l.shape IS NULL, t.reference, struct_update(t.reference, shape := l.shape, strides := l.target_strides)
            ) AS target_reference,
            if(
                l.shape IS NULL, g.reference, struct_update(g.reference, shape := l.shape, strides := l.golden_strides)
            ) AS golden_reference,
            l.shape IS NOT NULL AS is_relaid,
            coalesce(list_aggregate(t.reference.shape, 'product'), 1) AS elements,
            regexp_matches(t.reference.dtype, '[US]') AS is_text,
            matched_by = 'search'
            AND abs(target_max - golden_max) <= 1e-5 * greatest(abs(target_max), abs(target_min))
            AND abs(target_min - golden_min) <= 1e-5 * greatest(abs(target_max), abs(target_min))
            AND abs(target_norm - golden_norm) <= 1e-5 * target_norm AS is_same_tensor
        FROM paired
        JOIN target_contents AS t ON t.content = paired.target_content
        JOIN golden_contents AS g ON g.content = paired.golden_content
        LEFT JOIN search_layouts AS l
            ON paired.matched_by = 'search'
            AND l.target_content = paired.target_content
            AND l.golden_content = paired.golden_content
        WHERE target_shape = golden_shape OR NOT same_shape(target_shape, golden_shape, matched_by) OR l.shape IS NOT NULL
    ),
    distinct_pairs AS (
        SELECT
            target_content,
            golden_content,
            is_relaid,
            any_value(target_reference) AS target_reference,
            any_value(golden_reference) AS golden_reference
        FROM readable
        WHERE target_content <> golden_content
        GROUP BY target_content, golden_content, is_relaid
    ),
    measured AS (
        SELECT
            target_content,
            golden_content,
            is_relaid,
            tensor_metrics(target_reference, golden_reference) AS metrics
        FROM distinct_pairs
    )
SELECT
    row,
    metrics.status AS measurement,
    metrics.detail AS measurement_problem,
    metrics.equal AS values_equal,
    metrics.cosine,
    metrics.euclidean_distance,
    metrics.max_abs_error,
    metrics.max_relative_error,
    metrics.one_thousandth_ratio,
    metrics.five_thousandths_ratio,
    metrics.golden_norm AS scale_norm,
    metrics.golden_max_abs AS scale_max
FROM readable
JOIN measured USING (target_content, golden_content, is_relaid)
WHERE NOT (is_same_tensor AND coalesce(metrics.cosine < 0.99, false))
UNION ALL
SELECT
    row,
    CASE
        WHEN is_text THEN 'text'
        WHEN elements = 0 THEN 'empty'
        WHEN elements = 1 THEN 'scalar'
        ELSE 'measured'
    END AS measurement,
    NULL AS measurement_problem,
    true AS values_equal,
    if(elements > 1 AND NOT is_text, 1.0, NULL) AS cosine,
    if(elements > 1 AND NOT is_text, 0.0, NULL) AS euclidean_distance,
    if(elements > 0 AND NOT is_text, 0.0, NULL) AS max_abs_error,
    if(elements > 0 AND NOT is_text, 0.0, NULL) AS max_relative_error,
    if(elements > 1 AND NOT is_text, 1.0, NULL) AS one_thousandth_ratio,
    if(elements > 1 AND NOT is_text, 1.0, NULL) AS five_thousandths_ratio,
    NULL AS scale_norm,
    NULL AS scale_max
FROM readable
WHERE target_content = golden_content
