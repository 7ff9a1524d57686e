-- same_calls: whether both runs call the same APIs and modules equally often, and each call is in the module in which it is in
--   golden, or, where no modules were recorded, takes no weights that golden gives another call. So does one program, also
--   with another batch.
-- grain: one row
WITH
    calls AS (
        SELECT stem, count(*) FILTER (WHERE is_target) = count(*) FILTER (WHERE NOT is_target) AS is_equal
        FROM (SELECT stem, true AS is_target FROM target_ops UNION ALL SELECT stem, false FROM golden_ops)
        GROUP BY stem
    ),
    places AS (
        SELECT bool_and(t.parent IS NOT DISTINCT FROM g.parent) AS are_equal
        FROM match_exact
        JOIN target_ops AS t ON t.seq = target_seq
        JOIN golden_ops AS g ON g.seq = golden_seq
        WHERE t.op_kind = 'api' AND t.direction = 'forward'
    ),
    target_weights AS (
        SELECT seq, shape, norm, mean * sqrt(list_aggregate(shape, 'product')) AS mean
        FROM target_leaves
        WHERE slot = 'input.1' AND norm > 0
    ),
    golden_weights AS (
        SELECT seq, shape, norm, mean * sqrt(list_aggregate(shape, 'product')) AS mean
        FROM golden_leaves
        WHERE slot = 'input.1' AND norm > 0
    ),
    -- few rows or none: joined last, each weight would be compared with all of its shape
    displaced AS MATERIALIZED (
        SELECT t.shape, t.norm, t.mean
        FROM match_exact
        JOIN target_weights AS t ON t.seq = target_seq
        JOIN golden_weights AS g ON g.seq = golden_seq
        WHERE
            NOT EXISTS (FROM target_ops WHERE op_kind = 'module')
            AND greatest(abs(t.norm - g.norm), abs(t.mean - g.mean)) > 1e-3 * g.norm
    )
SELECT
    bool_and(is_equal)
    AND coalesce(any_value(are_equal), true)
    AND NOT EXISTS (
        FROM displaced AS t
        JOIN golden_weights AS other ON other.shape = t.shape
        WHERE greatest(abs(t.norm - other.norm), abs(t.mean - other.mean)) <= 1e-3 * other.norm
    ) AS is_same
FROM calls
CROSS JOIN places
