-- run_levels: how grave each leaf of a run is, and its magnitude, with the columns of levels.
-- grain: one leaf of the run
-- parameters: $run; the view tensors
-- level: 7 NaN or inf, 6 unreadable, 1 else
-- error: the largest magnitude of an element; inf for NaN
SELECT
    step,
    rank,
    row,
    seq AS target_seq,
    NULL::INTEGER AS golden_seq,
    role IN ('input', 'parameters') AS is_input,
    CASE
        WHEN content_problem IS NOT NULL THEN 6
        WHEN kind = 'tensor' AND NOT (isfinite(coalesce(max, 0)) AND isfinite(coalesce(min, 0))) THEN 7
        WHEN nan_count > 0 OR posinf_count > 0 OR neginf_count > 0 THEN 7
        ELSE 1
    END::TINYINT AS level,
    if(kind = 'tensor', if(level = 7, 'inf'::DOUBLE, greatest(abs(max), abs(min))), NULL) AS error
FROM tensors
WHERE run = $run
