-- against: the verdict on a device by its errors beside those of another device, both against the same reference.
-- grain: one leaf of the first verification that was measured
-- parameters: $standard as in judged, $device and $peer: names of verifications; the view verifications, the tables
--   precisions, standards, benchmark_levels and level_limits
-- source: msprobe 26.2, api_precision_compare; an op that only the first has is a row with the status skip
WITH
measured AS (
    SELECT * FROM verifications WHERE verification = $device AND origin = 'device' AND slot IS NOT NULL
),
peer AS (
    SELECT * FROM verifications WHERE verification = $peer AND origin = 'device' AND slot IS NOT NULL
),
paired AS (
    SELECT
        m.run, m.step, m.rank, m.seq, m.op, m.api, m.direction, m.slot, m.dtype, m.shape, m.error_balance,
        m.max_abs_error, m.binary_error_share, m.nonfinite_error_share, m.relative_error_share, m.absolute_error_share,
        m.accumulative_nonfinite_share, m.accumulative_relative_share, m.accumulative_absolute_share,
        m.mean_ulp, m.ulp_share, m.one_thousandth_ratio,
        m.small_value_error_share, m.rmse, m.max_relative_error, m.mean_relative_error,
        peer.small_value_error_share AS peer_small_value_error_share, peer.rmse AS peer_rmse,
        peer.max_relative_error AS peer_max_relative_error, peer.mean_relative_error AS peer_mean_relative_error,
        peer.mean_ulp AS peer_mean_ulp, peer.ulp_share AS peer_ulp_share,
        peer.op IS NOT NULL AS has_peer,
        m.typical_error IS NULL AND m.max_ulp IS NULL AND m.cosine_note IS NULL AS is_exact,
        coalesce(limits.ratio_floor, 2.0 ** -14) AS least,
        coalesce(limits.balance_limit, 2.0 ** -14) AS balance_limit,
        coalesce(level.level, 'L0') AS level,
        bounds.max_relative_error AS most_max, bounds.mean_relative_error AS most_mean, bounds.rmse AS most_rmse,
        bounds.small_value AS most_small,
        CASE
            WHEN m.typical_error IS NULL AND m.max_ulp IS NULL AND m.cosine_note IS NULL THEN 'binary'
            WHEN $standard = 'table' THEN table_standard(named.standard, m.dtype, m.has_float8)
            ELSE $standard
        END AS standard
    FROM measured AS m
    LEFT JOIN peer USING (step, rank, op, direction, slot)
    LEFT JOIN precisions AS limits ON limits.dtype = m.dtype
    LEFT JOIN standards AS named ON named.api = m.api
    LEFT JOIN benchmark_levels AS level ON level.api = m.api
    LEFT JOIN level_limits AS bounds ON bounds.level = coalesce(level.level, 'L0')
)
SELECT
    run, step, rank, seq, op, direction, slot, dtype, shape, standard,
    if(has_peer, ratio_status(small_value_error_share, peer_small_value_error_share, least, most_small), NULL) AS small_value_status,
    if(has_peer, ratio_status(rmse, peer_rmse, least, most_rmse), NULL) AS rmse_status,
    if(has_peer, ratio_status(max_relative_error, peer_max_relative_error, least, most_max), NULL) AS max_relative_status,
    if(has_peer, ratio_status(mean_relative_error, peer_mean_relative_error, least, most_mean), NULL) AS mean_relative_status,
    CASE
        WHEN dtype IN ('float64', 'complex64', 'complex128') OR NOT has_peer OR list_contains(shape, 0) THEN 'skip'
        WHEN standard = 'binary' THEN if(binary_error_share = 0, 'pass', 'error')
        WHEN standard = 'absolute'
            THEN if(nonfinite_error_share = 0 AND relative_error_share = 0 AND absolute_error_share = 0, 'pass', 'error')
        WHEN standard = 'accumulative'
            THEN if(
                accumulative_nonfinite_share = 0 AND accumulative_relative_share = 0
                    AND accumulative_absolute_share = 0 AND error_balance <= balance_limit,
                'pass', 'error'
            )
        WHEN standard = 'thousandth' THEN if(one_thousandth_ratio >= 0.999, 'pass', 'error')
        WHEN standard = 'ulp' AND dtype LIKE 'float8%' THEN if(ulp_share < 0.001, 'pass', 'error')
        WHEN standard = 'ulp' AND ratio_status(mean_ulp, peer_mean_ulp, least, 'inf'::DOUBLE) = 'error' THEN 'error'
        WHEN standard = 'ulp' AND dtype = 'float32' AND (mean_ulp < 64 OR ulp_share < 0.05) THEN 'pass'
        WHEN standard = 'ulp' AND dtype <> 'float32' AND ulp_share < 0.001 THEN 'pass'
        WHEN standard = 'ulp' THEN if(ulp_share / greatest(peer_ulp_share, least) < 1, 'pass', 'error')
        WHEN 'error' IN (small_value_status, rmse_status, max_relative_status, mean_relative_status) THEN 'error'
        ELSE 'pass'
    END AS status,
    if(has_peer, NULL, 'the other verification has no such result') AS message
FROM paired
ORDER BY step, rank, seq, direction DESC, slot
