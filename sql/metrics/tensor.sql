-- tensor: metrics of the saved tensors themselves.
-- grain: one pair whose two tensors were read
-- Formulas: lakeprobe/tensors/metrics.py. Each distinct pair of contents is measured once (relative errors are not
-- symmetric, so the order matters). If both contents are the same, the result is known (schemas/data/metrics.yaml, the
-- table same_contents) and nothing is read.
-- A tensor with different memory layouts in the two units is measured as the search arranged it (match/search_layouts).
-- If the search found no layout, statistics judge other shapes and elements in another order.
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
            CASE
                WHEN regexp_matches(t.reference.dtype, '[US]') THEN 'text'
                WHEN 0 IN t.reference.shape THEN 'empty'
                WHEN coalesce(list_aggregate(t.reference.shape, 'product'), 1) = 1 THEN 'scalar'
                ELSE 'measured'
            END AS same_measurement,
            may_be_relaid(matched_by)
            AND abs(target_max - golden_max) <= 1e-5 * greatest(abs(target_max), abs(target_min))
            AND abs(target_min - golden_min) <= 1e-5 * greatest(abs(target_max), abs(target_min))
            AND abs(target_norm - golden_norm) <= 1e-5 * target_norm AS is_same_tensor
        FROM paired
        JOIN target_contents AS t ON t.content = paired.target_content
        JOIN golden_contents AS g ON g.content = paired.golden_content
        LEFT JOIN search_layouts AS l
            ON may_be_relaid(paired.matched_by)
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
        SELECT * RENAME (
            status AS measurement,
            detail AS measurement_problem,
            "equal" AS values_equal,
            golden_norm AS scale_norm,
            golden_max_abs AS scale_max
        )
        FROM (
            SELECT
                target_content,
                golden_content,
                is_relaid,
                unnest(tensor_metrics(target_reference, golden_reference))
            FROM distinct_pairs
        )
    )
SELECT
    row,
    measured.* EXCLUDE (target_content, golden_content, is_relaid)
FROM readable
JOIN measured USING (target_content, golden_content, is_relaid)
WHERE NOT coalesce(is_same_tensor AND cosine < 0.99, false)
UNION ALL BY NAME
SELECT
    row,
    same_contents.*
FROM readable
JOIN same_contents ON same_contents.measurement = same_measurement
WHERE target_content = golden_content
