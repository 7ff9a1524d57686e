-- run_levels: how grave each leaf of a run is, and its magnitude, with the columns of levels.
-- grain: one leaf of the run
-- parameters: $run; the view tensors, the table overflow_levels
-- level: 7 NaN or inf of an op with an overflow level, 2 those that are meant (the -inf of a mask), 6 unreadable, 1 else
-- error: the largest magnitude of an element; inf for NaN
SELECT
    tensors.step,
    tensors.rank,
    tensors.row,
    tensors.seq AS target_seq,
    NULL::INTEGER AS golden_seq,
    role IN ('input', 'parameters') AS is_input,
    CASE
        WHEN content_problem IS NOT NULL THEN 6
        WHEN
            (kind = 'tensor' AND NOT (isfinite(coalesce(max, 0)) AND isfinite(coalesce(min, 0)) AND isfinite(coalesce(mean, 0))))
            OR nan_count > 0
            OR posinf_count > 0
            OR neginf_count > 0
            THEN if(overflows.seq IS NULL, 2, 7)
        ELSE 1
    END::TINYINT AS level,
    CASE
        WHEN kind <> 'tensor' THEN NULL
        WHEN level IN (2, 7) OR isnan(max) OR isnan(min) THEN 'inf'::DOUBLE
        ELSE greatest(abs(max), abs(min))
    END AS error
FROM tensors
LEFT JOIN (SELECT step, rank, seq FROM overflow_levels WHERE level IS NOT NULL) AS overflows
    ON overflows.step = tensors.step
    AND overflows.rank = tensors.rank
    AND overflows.seq = tensors.seq
WHERE run = $run
