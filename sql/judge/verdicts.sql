-- verdicts: the findings of each row of the comparison.
-- grain: one row of the comparison (a pair, or a row without counterpart)
-- The rules are those of msprobe 26.2 (core/compare/indicator_analysis), per op: inputs (arguments and parameters) against outputs; where
-- it is wrong we are right (docs/differences.md). Thresholds: judge/thresholds.sql.
-- A row without counterpart has no other finding. A record that does not say what the op made is set aside where the two
-- sides differ: the pair is compared, and its verdict is skipped. A pair of tensors is unrecorded where nothing says
-- whether the two are equal: dtype and shape agree, and the dumps have no values of both.
WITH
    never_written AS (
        SELECT 'target' AS side, seq, role, slot FROM target_ops JOIN uninitialised USING (api) WHERE direction = 'forward'
        UNION ALL
        SELECT 'golden' AS side, seq, role, slot FROM golden_ops JOIN uninitialised USING (api) WHERE direction = 'forward'
    ),
    paired_ops AS (
        SELECT DISTINCT target_seq, golden_seq FROM paired WHERE target_row IS NOT NULL AND golden_row IS NOT NULL
    ),
    -- a checkpoint runs its ops twice, at first without gradients: the calls too many tell where
    called_again AS (
        SELECT DISTINCT 'target' AS side, stem, module_of(parent) AS module
        FROM target_ops
        ANTI JOIN paired_ops ON target_seq = seq
        WHERE direction = 'forward'
        UNION ALL
        SELECT DISTINCT 'golden' AS side, stem, module_of(parent) AS module
        FROM golden_ops
        ANTI JOIN paired_ops ON golden_seq = seq
        WHERE direction = 'forward'
    ),
    without_gradients AS (
        SELECT side, seq
        FROM (
            SELECT 'target' AS side, seq, stem, module_of(parent) AS module FROM target_ops WHERE direction = 'forward'
            UNION ALL
            SELECT 'golden' AS side, seq, stem, module_of(parent) AS module FROM golden_ops WHERE direction = 'forward'
        ) AS forward_ops
        JOIN called_again USING (side, stem)
        WHERE called_again.module IS NOT DISTINCT FROM forward_ops.module
    ),
    -- recorded before the data had to be there: what a call gives that does not wait for it
    late_outputs AS (
        SELECT seq
        FROM target_ops
        WHERE api_type LIKE '%Distributed' AND api IN ('isend', 'irecv', 'batch_isend_irecv')
        UNION ALL
        SELECT seq
        FROM target_leaves
        SEMI JOIN (FROM target_ops WHERE api_type LIKE '%Distributed') AS communication USING (seq)
        WHERE role = 'input' AND type = 'bool' AND value = 'true' AND regexp_matches(slot, '^input\.(\d+|async_op)$')
    ),
    -- one digest of two contents: where an op works in place, msprobe may take it when the op has gone on
    shared_digests AS (
        SELECT 'target' AS side, target_digest AS digest, target_shape AS shape
        FROM paired
        WHERE target_digest IS NOT NULL
        GROUP BY ALL
        HAVING count(DISTINCT (target_max, target_min, target_mean, target_norm)) > 1
        UNION ALL
        SELECT 'golden' AS side, golden_digest AS digest, golden_shape AS shape
        FROM paired
        WHERE golden_digest IS NOT NULL
        GROUP BY ALL
        HAVING count(DISTINCT (golden_max, golden_min, golden_mean, golden_norm)) > 1
    ),
    -- statistics are taken at once: where they agree, a digest of other contents is one that was taken late
    late_digests AS (
        SELECT row
        FROM paired
        WHERE
            target_digest <> golden_digest
            AND target_shape = golden_shape
            AND target_norm = golden_norm
            AND (target_max, target_min, target_mean) IS NOT DISTINCT FROM (golden_max, golden_min, golden_mean)
            AND (
                target_norm = 0
                OR (target_digest, target_shape) IN (SELECT (digest, shape) FROM shared_digests WHERE side = 'target')
                OR (golden_digest, golden_shape) IN (SELECT (digest, shape) FROM shared_digests WHERE side = 'golden')
            )
    ),
    rows AS (
        SELECT
            p.row,
            coalesce(target_seq, -1 - golden_seq) AS op_number,
            target_row IS NOT NULL AND golden_row IS NOT NULL AS matched,
            p.role = 'output' AS is_output,
            target_kind,
            golden_kind,
            NOT same_type(target_type, golden_type) AS other_type,
            NOT same_dtype(target_dtype, golden_dtype) AS other_dtype,
            NOT same_shape(target_shape, golden_shape, matched_by) AS other_shape,
            CASE
                WHEN target_requires_grad IS NULL OR golden_requires_grad IS NULL THEN NULL
                WHEN target_requires_grad = golden_requires_grad THEN false
                WHEN golden_requires_grad THEN target_seq NOT IN (SELECT seq FROM without_gradients WHERE side = 'target')
                ELSE golden_seq NOT IN (SELECT seq FROM without_gradients WHERE side = 'golden')
            END AS other_requires_grad,
            target_digest <> golden_digest AS other_digest,
            (target_digest IS NULL) <> (golden_digest IS NULL) AS one_digest,
            isfinite(coalesce(target_max, target_number)) AS target_max_finite,
            isfinite(coalesce(target_min, target_number)) AS target_min_finite,
            isfinite(coalesce(golden_max, golden_number)) AS golden_max_finite,
            isfinite(coalesce(golden_min, golden_number)) AS golden_min_finite,
            m.measurement,
            m.max_diff,
            m.min_diff,
            m.norm_relative,
            m.one_thousandth_ratio,
            m.cosine,
            d.difference,
            u.seq IS NOT NULL
            -- a buffer to receive into, inside batch_isend_irecv
            OR (
                p.role = 'input'
                AND coalesce(coalesce(target_extra, golden_extra) ->> '$.op' IN ('recv', 'irecv'), false)
            ) AS skipped,
            p.role = 'output'
            AND d.difference <> 'equal'
            AND target_seq IN (SELECT seq FROM late_outputs) AS set_aside,
            m.values_equal IS NULL AND p.row IN (SELECT row FROM late_digests) AS late_digest,
            coalesce(target_content = golden_content, false) AS same_content,
            target_data_name IS NOT NULL
            AND golden_data_name IS NOT NULL
            AND (content_problem IS NOT NULL OR m.measurement = 'unreadable') AS unreadable,
            matched AND d.difference IS NULL AND NOT coalesce(unreadable, false) AS unrecorded,
            coalesce(content_problem, m.measurement_problem) AS problem
        FROM paired AS p
        LEFT JOIN metrics AS m ON m.row = p.row
        LEFT JOIN differences AS d ON d.row = p.row
        LEFT JOIN never_written AS u
            ON u.side = if(target_seq IS NULL, 'golden', 'target')
            AND u.seq = coalesce(target_seq, golden_seq)
            AND u.role = p.role
            AND (u.slot IS NULL OR starts_with(coalesce(target_slot, golden_slot) || '.', u.slot || '.'))
    ),
    per_op AS (
        SELECT
            op_number,
            coalesce(max(norm_relative) FILTER (WHERE NOT is_output AND isfinite(norm_relative)), 0) AS input_norm_error,
            coalesce(max(norm_relative) FILTER (WHERE is_output AND isfinite(norm_relative)), 0) AS output_norm_error,
            coalesce(min(one_thousandth_ratio) FILTER (WHERE NOT is_output), 1) AS input_thousandth,
            coalesce(min(one_thousandth_ratio) FILTER (WHERE is_output), 1) AS output_thousandth,
            coalesce(min(cosine) FILTER (WHERE NOT is_output), 1) AS input_cosine,
            coalesce(min(cosine) FILTER (WHERE is_output), 1) AS output_cosine,
            min(row) FILTER (WHERE is_output) AS first_output
        FROM rows
        WHERE NOT skipped AND NOT coalesce(set_aside, false) AND NOT late_digest
        GROUP BY op_number
    ),
    judged AS (
        SELECT rows.*, per_op.* EXCLUDE (op_number), kind = 'digest' AS by_digest
        FROM rows
        LEFT JOIN per_op USING (op_number)
        CROSS JOIN comparison_kind
    ),
    -- what can be found: how bad it is, in words, and where it holds; a row has its findings in this order
    found AS (
        SELECT row, 1 AS place, 'error' AS severity, 'NaN or inf in the target where the golden run has none' AS text
        FROM judged
        WHERE
            matched
            AND coalesce(golden_max_finite AND golden_min_finite, true)
            AND NOT coalesce(target_max_finite AND target_min_finite, true)
        UNION ALL
        SELECT row, 2 AS place, 'error' AS severity, 'NaN or inf at different places, or inf of different sign' AS text
        FROM judged
        WHERE
            measurement = 'nonfinite'
            OR (
                measurement IS NULL
                AND (
                    NOT target_max_finite AND NOT golden_max_finite AND max_diff <> 0
                    OR NOT target_min_finite AND NOT golden_min_finite AND min_diff <> 0
                )
            )
        UNION ALL
        SELECT row, 3 AS place, 'error' AS severity, 'the norm of this output is off while the inputs agree' AS text
        FROM judged
        WHERE
            is_output
            AND coalesce(measurement, 'scalar') = 'scalar'
            AND input_norm_error < getvariable('norm_error_input')
            AND norm_relative > getvariable('norm_error_output')
            AND NOT isnan(norm_relative)
        UNION ALL
        SELECT row, 4 AS place, 'error' AS severity, 'too few elements of the outputs are within one thousandth while the inputs agree' AS text
        FROM judged
        WHERE
            row = first_output
            AND input_thousandth > getvariable('thousandth_input')
            AND output_thousandth < getvariable('thousandth_output')
        UNION ALL
        SELECT row, 5 AS place, 'error' AS severity, 'requires_grad differs' AS text
        FROM judged
        WHERE
            other_requires_grad
        UNION ALL
        SELECT row, 6 AS place, 'error' AS severity, 'values of different kinds are held against each other' AS text
        FROM judged
        WHERE
            matched AND target_kind <> golden_kind
        UNION ALL
        SELECT row, 7 AS place, 'error' AS severity, 'the types of the values differ' AS text
        FROM judged
        WHERE
            matched
            AND target_kind = golden_kind
            AND target_kind IN ('scalar', 'object')
            AND other_type
        UNION ALL
        SELECT row, 8 AS place, 'error' AS severity, 'the values differ' AS text
        FROM judged
        WHERE
            matched
            AND target_kind = golden_kind
            AND target_kind IN ('scalar', 'object')
            AND NOT coalesce(other_type, false)
            AND difference = 'different'
        UNION ALL
        SELECT row, 9 AS place, 'error' AS severity, 'the dtypes differ' AS text
        FROM judged
        WHERE
            other_dtype
        UNION ALL
        SELECT row, 10 AS place, 'error' AS severity, 'the shapes differ' AS text
        FROM judged
        WHERE
            other_shape
        UNION ALL
        SELECT row, 11 AS place, 'error' AS severity, 'the digests differ' AS text
        FROM judged
        WHERE
            by_digest AND other_digest
        UNION ALL
        SELECT row, 12 AS place, 'warning' AS severity, 'the norm error grows from the inputs to the outputs' AS text
        FROM judged
        WHERE
            row = first_output
            AND coalesce(measurement, 'scalar') = 'scalar'
            AND if(
                input_norm_error = 0,
                output_norm_error > getvariable('norm_growth_from_zero'),
                output_norm_error / input_norm_error > getvariable('norm_growth')
            )
        UNION ALL
        SELECT row, 13 AS place, 'warning' AS severity, 'the cosine falls from the inputs to the outputs' AS text
        FROM judged
        WHERE
            row = first_output
            AND input_cosine > getvariable('cosine_input')
            AND input_cosine - output_cosine > getvariable('cosine_drop')
        UNION ALL
        SELECT row, 14 AS place, 'warning' AS severity, 'only one side has a digest' AS text
        FROM judged
        WHERE
            by_digest AND target_kind = 'tensor' AND golden_kind = 'tensor' AND one_digest
    ),
    findings AS (
        SELECT
            row,
            bool_or(severity = 'error') AS has_error,
            list(severity || ': ' || text ORDER BY place) AS messages
        FROM found
        GROUP BY row
    )
SELECT
    judged.row,
    CASE
        WHEN NOT matched THEN 'unmatched'
        WHEN skipped THEN 'skipped'
        WHEN unreadable THEN 'unreadable'
        WHEN unrecorded THEN 'unrecorded'
        WHEN same_content THEN 'equal'
        ELSE 'compared'
    END AS outcome,
    CASE
        WHEN skipped OR set_aside OR late_digest THEN 'skipped'
        WHEN has_error THEN 'error'
        WHEN findings.row IS NOT NULL THEN 'warning'
        WHEN NOT matched THEN if(getvariable('unmatched_is_finding') = 1, 'unmatched', 'skipped')
        WHEN unreadable THEN 'unreadable'
        ELSE 'pass'
    END AS verdict,
    CASE
        WHEN skipped THEN ['skipped: this memory was never written']
        WHEN set_aside THEN ['skipped: recorded before the data had to be there']
        WHEN late_digest THEN ['skipped: the digest is that of later contents']
        WHEN findings.row IS NULL AND NOT coalesce(unreadable, false) THEN []::VARCHAR[]
        ELSE list_concat(findings.messages, if(unreadable, ['unreadable: ' || problem], []))
    END AS messages
FROM judged
LEFT JOIN findings ON findings.row = judged.row
