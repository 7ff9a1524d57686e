-- leaves: the inputs, parameters and outputs of one (step, rank), as both sides have them.
-- grain: one row of the comparison
-- parameters: $comparison, $step, $rank; the view results, the table view_levels
-- target_recorded, golden_recorded: macros/recorded_statistics
-- in no order: view/unit.py sorts them by node and row
SELECT
    results.row,
    results.target_row,
    results.target_seq,
    results.golden_seq,
    substr(coalesce(target_name, golden_name), length(coalesce(target_op, golden_op)) + 2) AS slot,
    if(golden_name IS NULL OR target_name IS NULL, NULL, substr(golden_name, length(golden_op) + 2)) AS golden_slot,
    role,
    levels.level,
    levels.error,
    outcome,
    array_to_string(messages, '; ')[:2000] AS messages,
    coalesce(target_dtype, target_type, target_kind) AS target_type,
    coalesce(golden_dtype, golden_type, golden_kind) AS golden_type,
    array_to_string(target_shape, '×') AS target_shape,
    array_to_string(golden_shape, '×') AS golden_shape,
    coalesce(target_value, target_digest)[:2000] AS target_value,
    coalesce(golden_value, golden_digest)[:2000] AS golden_value,
    target_max,
    target_min,
    target_mean,
    target_norm,
    golden_max,
    golden_min,
    golden_mean,
    golden_norm,
    recorded_statistics(target_max, target_min, target_mean, target_norm) AS target_recorded,
    recorded_statistics(golden_max, golden_min, golden_mean, golden_norm) AS golden_recorded
FROM results
JOIN view_levels AS levels
    ON levels.step = results.step
    AND levels.rank = results.rank
    AND levels.row = results.row
WHERE comparison = $comparison AND results.step = $step AND results.rank = $rank
