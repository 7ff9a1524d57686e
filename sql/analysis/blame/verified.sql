-- verified: what verifications say of the suspects: run again on its own inputs, is the op right?
-- grain: one suspect, run (target or golden), kind of inputs, and origin of the result (device, or recorded in the dump)
-- parameters: $ops: the suspects' names, $runs, $step; the view verifications
SELECT
    op,
    run,
    origin,
    string_agg(DISTINCT device, ', ' ORDER BY device) AS device,
    inputs,
    count(*) AS results,
    count(*) FILTER (status = 'error') AS wrong,
    bool_and(coalesce(is_deterministic, true)) AS is_deterministic,
    max(largest_ulp) AS largest_ulp,
    max(max_abs_error) AS max_abs_error,
    max(typical_error) AS typical_error
FROM verifications
WHERE
    run IN (SELECT unnest($runs::VARCHAR[]))
    AND step = $step
    AND op IN (SELECT unnest($ops::VARCHAR[]))
    AND status IN ('pass', 'warning', 'error')
GROUP BY ALL
ORDER BY op, list_position($runs::VARCHAR[], any_value(verifications.run)), origin DESC, inputs
