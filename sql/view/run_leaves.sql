-- run_leaves: the inputs, parameters and outputs of one (step, rank) of a run, with the columns of leaves.
-- grain: one leaf
-- parameters: $run, $step, $rank; the view tensors, the table view_levels
-- in no order: view/unit.py sorts them by node and row
SELECT
    tensors.row,
    tensors.row AS target_row,
    tensors.seq AS target_seq,
    NULL::INTEGER AS golden_seq,
    slot,
    NULL::VARCHAR AS golden_slot,
    role,
    levels.level,
    levels.error,
    'recorded' AS outcome,
    coalesce(content_problem, '') AS messages,
    coalesce(dtype, type, kind) AS target_type,
    NULL::VARCHAR AS golden_type,
    array_to_string(shape, '×') AS target_shape,
    NULL::VARCHAR AS golden_shape,
    coalesce(value, digest)[:2000] AS target_value,
    NULL::VARCHAR AS golden_value,
    max AS target_max,
    min AS target_min,
    mean AS target_mean,
    norm AS target_norm,
    NULL::DOUBLE AS golden_max,
    NULL::DOUBLE AS golden_min,
    NULL::DOUBLE AS golden_mean,
    NULL::DOUBLE AS golden_norm,
    recorded_statistics(max, min, mean, norm) AS target_recorded,
    0::TINYINT AS golden_recorded
FROM tensors
JOIN view_levels AS levels
    ON levels.step = tensors.step
    AND levels.rank = tensors.rank
    AND levels.row = tensors.row
WHERE run = $run AND tensors.step = $step AND tensors.rank = $rank
