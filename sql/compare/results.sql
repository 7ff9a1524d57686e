-- results: the comparison of one (step, rank), as the lake stores it (schemas/results.yaml).
-- grain: one row of the comparison: a pair, or a row of one side without counterpart
-- A tensor before the first op that stands out of rounding noise differs by noise only. So does one after it whose
-- error is no larger than that of rounding (variables noise_ends and noise_error; compare/noise.py).
-- What a rule gave is cast, because all results of a lake are read together and need one type per column. metrics_kept
-- are the metrics of schemas/data/metrics.yaml that results keep, and those that only the rule defines.
-- order: that of paired, which DuckDB keeps through these joins; compare/results_whole checks it
SELECT
    p.row,
    target_row,
    golden_row,
    target_seq,
    golden_seq,
    t.op AS target_op,
    g.op AS golden_op,
    row_name(t.op, target_slot) AS target_name,
    row_name(g.op, golden_slot) AS golden_name,
    coalesce(t.part, g.part) AS part,
    role,
    matched_by,
    v.outcome::VARCHAR AS outcome,
    CASE
        -- a value that no recorded op made differs in some statistic, though perhaps in none that is shown
        WHEN s.is_source AND getvariable('noise_error') >= 0 THEN 'different'
        -- where nothing rounds, the first one tells, if more comes of it
        WHEN d.difference = 'noise' AND s.is_first_source AND (SELECT bool_or(difference = 'different') FROM differences) THEN 'different'
        WHEN
            d.difference = 'different'
            AND same_dtype(target_dtype, golden_dtype)
            AND s.row IS NULL -- not the suspect's own row
            AND NOT (coalesce(made.stands_out, false) AND role IN ('output', 'parameters_grad')) -- nor what it gives
            AND (
                n.is_like AND (p.target_seq < getvariable('noise_ends') OR n.error <= getvariable('noise_error'))
                -- behind a choice that rounding flipped tensors have other lengths; elsewhere that is a suspect (noise/arguments)
                OR NOT n.is_like
                AND target_kind = 'tensor'
                AND golden_kind = 'tensor'
                AND len(target_shape) = len(golden_shape)
                AND p.target_seq < getvariable('noise_ends')
            )
            THEN if(v.outcome = 'unreadable', NULL, 'noise')
        ELSE d.difference
    END AS difference,
    v.verdict::VARCHAR AS verdict,
    v.messages::VARCHAR[] AS messages,
    target_kind,
    golden_kind,
    target_type,
    golden_type,
    target_dtype,
    golden_dtype,
    target_shape,
    golden_shape,
    target_requires_grad,
    golden_requires_grad,
    target_max,
    target_min,
    target_mean,
    target_norm,
    golden_max,
    golden_min,
    golden_mean,
    golden_norm,
    target_max_int,
    target_min_int,
    golden_max_int,
    golden_min_int,
    target_stat_types,
    golden_stat_types,
    target_value,
    golden_value,
    target_extra,
    golden_extra,
    target_digest,
    golden_digest,
    m.* EXCLUDE (row) REPLACE (
        coalesce(m.measurement, if(content_problem IS NOT NULL, 'unreadable', NULL)) AS measurement,
        coalesce(m.measurement_problem, content_problem) AS measurement_problem
    ),
    n.error,
    target_data_name,
    golden_data_name,
    t.parent AS module,
    t.stack,
    coalesce(target_row = t.first_row, false) AS first_of_op
FROM paired AS p
LEFT JOIN target_ops AS t ON t.seq = p.target_seq
LEFT JOIN golden_ops AS g ON g.seq = p.golden_seq
LEFT JOIN metrics_kept AS m ON m.row = p.row
LEFT JOIN differences AS d ON d.row = p.row
LEFT JOIN verdicts AS v ON v.row = p.row
LEFT JOIN (SELECT row, is_like, error FROM noise_leaves) AS n ON n.row = p.row
LEFT JOIN (
    SELECT row, bool_or(evidence = 'source') AS is_source, bool_or(evidence = 'source' AND nth = 1) AS is_first_source
    FROM noise_suspects
    WHERE row IS NOT NULL
    GROUP BY row
) AS s ON s.row = p.row
LEFT JOIN (
    SELECT DISTINCT target_seq AS seq, true AS stands_out FROM noise_suspects WHERE evidence IN ('added', 'shift')
) AS made ON made.seq = p.target_seq
