-- same_calls: whether both runs call the same APIs and modules equally often, and each call is in the module in which it is in
--   golden, or, where no modules were recorded, takes weights of the same norm. So does one program, also with another batch.
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
    weights AS (
        SELECT bool_and(abs(t.norm - g.norm) <= 1e-3 * g.norm AND abs(t.mean - g.mean) * sqrt(list_aggregate(g.shape, 'product')) <= 1e-3 * g.norm) AS are_equal
        FROM match_exact
        JOIN target_leaves AS t ON t.seq = target_seq AND t.slot = 'input.1'
        JOIN golden_leaves AS g ON g.seq = golden_seq AND g.slot = 'input.1'
        WHERE NOT EXISTS (FROM target_ops WHERE op_kind = 'module') AND t.norm IS NOT NULL
    )
SELECT
    bool_and(is_equal)
    AND coalesce(any_value(places.are_equal), true)
    AND coalesce(any_value(weights.are_equal), true) AS is_same
FROM calls
CROSS JOIN places
CROSS JOIN weights
