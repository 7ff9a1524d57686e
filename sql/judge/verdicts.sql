-- verdicts: the findings of each row of the comparison.
-- grain: one row of the comparison (a pair, or a row without counterpart)
-- The rules follow msprobe 26.2 (core/compare/indicator_analysis). They judge per op: its outputs against its inputs
-- (arguments and parameters). docs/differences.md lists where we differ. judge/thresholds.sql has the thresholds.
-- A row without counterpart gets no other finding. What only one run recomputes has the outcome recomputed. Where the two
-- sides differ and the record does not say what the op computed, the outcome is compared and the verdict is skipped. The outcome unrecorded means that nothing says whether
-- two tensors are equal: dtype and shape agree, and the dumps do not have values of both. Settings of optimizers that one side
-- alone has are skipped: msprobe records none.
WITH
    never_written AS (
        SELECT 'target' AS side, seq, role, slot
        FROM target_ops
        JOIN uninitialised USING (api)
        WHERE direction = 'forward'
        UNION ALL
        SELECT 'golden' AS side, seq, role, slot
        FROM golden_ops
        JOIN uninitialised USING (api)
        WHERE direction = 'forward'
    ),
    -- the sum of a product and 0 times a tensor, which may be memory that was never written
    never_read AS (
        SELECT summand.row
        FROM paired AS summand
        JOIN paired AS beta ON beta.target_seq = summand.target_seq AND beta.golden_seq = summand.golden_seq
        JOIN target_ops ON target_ops.seq = summand.target_seq
        WHERE
            summand.target_slot IN ('input.0', 'input.input')
            AND beta.target_slot = 'input.beta'
            AND TRY_CAST(beta.target_value AS DOUBLE) = 0
            AND TRY_CAST(beta.golden_value AS DOUBLE) = 0
            AND regexp_matches(api, '^(add(mm|mv|r|bmm)|baddbmm)_?$')
    ),
    -- a function writes its result to `out` and reads nothing of it; a module may. Of a broadcast a rank that receives
    -- records nothing before, or whatever was there.
    functions AS (
        SELECT seq FROM target_ops WHERE api_type NOT IN ('Module', 'Cell')
    ),
    broadcasts AS (
        SELECT seq FROM target_ops WHERE api = 'broadcast' AND api_type LIKE '%Distributed'
    ),
    paired_ops AS (
        SELECT DISTINCT target_seq, golden_seq FROM paired WHERE target_row IS NOT NULL AND golden_row IS NOT NULL
    ),
    -- activation checkpointing runs ops twice, first without gradients: the surplus calls say in which modules
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
    -- an asynchronous call returns its output before the data has arrived, for which lakeprobe waits
    communication AS (
        SELECT seq, api
        FROM target_ops
        WHERE
            api_type LIKE '%Distributed'
            AND NOT (
                coalesce((SELECT are_collected FROM comparison_kind), false)
                AND coalesce(op_extra ->> '$.waited_for' = 'true', false)
            )
    ),
    late_outputs AS (
        SELECT seq FROM communication WHERE api IN ('isend', 'irecv', 'batch_isend_irecv')
        UNION ALL
        SELECT seq
        FROM target_leaves
        SEMI JOIN communication USING (seq)
        WHERE role = 'input' AND type = 'bool' AND value = 'true' AND regexp_matches(slot, '^input\.(\d+|async_op)$')
    ),
    -- one digest for two contents: msprobe may compute the digest after an in-place op has changed the tensor
    shared_digests AS (
        SELECT 'target' AS side, target_digest AS digest, target_shape AS shape
        FROM paired
        WHERE target_digest IS NOT NULL AND target_norm IS NOT NULL
        GROUP BY ALL
        HAVING count(DISTINCT (target_max, target_min, target_mean, target_norm)) > 1
        UNION ALL
        SELECT 'golden' AS side, golden_digest AS digest, golden_shape AS shape
        FROM paired
        WHERE golden_digest IS NOT NULL AND golden_norm IS NOT NULL
        GROUP BY ALL
        HAVING count(DISTINCT (golden_max, golden_min, golden_mean, golden_norm)) > 1
    ),
    -- statistics are computed at once: where they agree and the digests do not, a digest was computed late, or of zeros the
    -- signs differ
    late_digests AS (
        SELECT row
        FROM paired
        WHERE
            other_digest(target_digest, golden_digest)
            AND target_shape = golden_shape
            AND target_norm = golden_norm
            AND (target_max, target_min, target_mean) IS NOT DISTINCT FROM (golden_max, golden_min, golden_mean)
            AND (
                target_norm = 0
                OR (target_digest, target_shape) IN (SELECT (digest, shape) FROM shared_digests WHERE side = 'target')
                OR (golden_digest, golden_shape) IN (SELECT (digest, shape) FROM shared_digests WHERE side = 'golden')
            )
    ),
    -- not every tool records the settings of an optimizer
    settings_of_one_side AS (
        SELECT row FROM paired JOIN target_ops ON seq = target_seq WHERE api_type = 'Optimizer' AND golden_seq IS NULL
        UNION ALL
        SELECT row FROM paired JOIN golden_ops ON seq = golden_seq WHERE api_type = 'Optimizer' AND target_seq IS NULL
    ),
    -- what a side records after the other was cut off
    ends AS (
        SELECT
            max(golden_seq) FILTER (WHERE NOT target_complete) AS golden_alone_from,
            max(target_seq) FILTER (WHERE NOT golden_complete) AS target_alone_from
        FROM paired
        CROSS JOIN comparison_kind
        WHERE target_row IS NOT NULL AND golden_row IS NOT NULL
    ),
    rows AS (
        SELECT
            p.row,
            coalesce(target_seq, -1 - golden_seq) AS op_number,
            target_row IS NOT NULL AND golden_row IS NOT NULL AS matched,
            golden_seq IS NULL AND target_seq IN (SELECT seq FROM target_ops WHERE is_recompute)
            OR target_seq IS NULL AND golden_seq IN (SELECT seq FROM golden_ops WHERE is_recompute) AS recomputed,
            p.role = 'output' AS is_output,
            target_kind,
            golden_kind,
            NOT same_type(target_type, golden_type) AS other_type,
            NOT same_dtype(target_dtype, golden_dtype) AS other_dtype,
            NOT same_shape(target_shape, golden_shape, matched_by) AS other_shape,
            CASE
                WHEN target_requires_grad IS NULL OR golden_requires_grad IS NULL THEN NULL
                WHEN target_requires_grad = golden_requires_grad THEN false
                WHEN golden_requires_grad
                    THEN target_seq NOT IN (SELECT seq FROM without_gradients WHERE side = 'target')
                ELSE golden_seq NOT IN (SELECT seq FROM without_gradients WHERE side = 'golden')
            END AS other_requires_grad,
            other_digest(target_digest, golden_digest) AS other_digest,
            (target_digest IS NULL) <> (golden_digest IS NULL) AS one_digest,
            -- a single number has its value in place of a digest
            coalesce(target_digest, golden_digest) IS NULL
            AND target_shape = []
            AND golden_shape = []
            AND d.difference <> 'equal' AS other_number,
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
            )
            OR coalesce(
                p.role = 'input'
                AND starts_with(target_slot || '.', 'input.out.')
                AND target_seq IN (FROM functions),
                false
            )
            OR coalesce(
                p.role = 'input'
                AND target_kind <> golden_kind
                AND 'null' IN (target_kind, golden_kind)
                AND target_seq IN (FROM broadcasts),
                false
            )
            OR p.row IN (FROM never_read) AS skipped,
            p.row IN (FROM never_read) AS unread,
            p.role = 'output'
            AND d.difference <> 'equal'
            AND target_seq IN (SELECT seq FROM late_outputs) AS set_aside,
            m.values_equal IS NULL AND p.row IN (SELECT row FROM late_digests) AS late_digest,
            target_norm = 0 AS is_zero,
            coalesce(target_content = golden_content, false) AS same_content,
            coalesce(m.values_equal, target_content = golden_content, NOT other_digest(target_digest, golden_digest), false)
            AND are_far_apart(target_norm, golden_norm, target_max, golden_max, target_min, golden_min) AS contradicts,
            target_data_name IS NOT NULL
            AND golden_data_name IS NOT NULL
            AND (content_problem IS NOT NULL OR m.measurement = 'unreadable') AS unreadable,
            matched AND d.difference IS NULL AND NOT coalesce(unreadable, false) AS unrecorded,
            p.row IN (FROM settings_of_one_side) AS one_sided,
            NOT matched AND coalesce(p.golden_seq >= golden_alone_from OR p.target_seq >= target_alone_from, false) AS cut_off,
            coalesce(content_problem, m.measurement_problem) AS problem
        FROM paired AS p
        LEFT JOIN metrics AS m ON m.row = p.row
        LEFT JOIN differences AS d ON d.row = p.row
        CROSS JOIN ends
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
            -- a convolution gives null for the gradient that its input does not need
            coalesce(
                min(row) FILTER (WHERE is_output AND difference <> 'equal'), min(row) FILTER (WHERE is_output)
            ) AS first_output
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
    -- the finding of each rule, a line each: the errors, then the warnings. A list of structs takes several times as long
    findings AS (
        SELECT
            *,
            concat_ws(
                chr(10),
                if(
                    matched
                    AND coalesce(golden_max_finite AND golden_min_finite, true)
                    AND NOT coalesce(target_max_finite AND target_min_finite, true),
                    'error: NaN or inf in the target where the golden run has none',
                    NULL
                ),
                if(
                    measurement = 'nonfinite'
                    OR (
                        measurement IS NULL
                        AND (
                            NOT target_max_finite AND NOT golden_max_finite AND max_diff <> 0
                            OR NOT target_min_finite AND NOT golden_min_finite AND min_diff <> 0
                        )
                    ),
                    'error: NaN or inf at different places, or inf of different sign',
                    NULL
                ),
                if(
                    is_output
                    AND coalesce(measurement, 'scalar') = 'scalar'
                    AND input_norm_error < getvariable('norm_error_input')
                    AND norm_relative > getvariable('norm_error_output')
                    AND NOT isnan(norm_relative),
                    'error: the norm of this output is off while the inputs agree',
                    NULL
                ),
                if(
                    row = first_output
                    AND input_thousandth > getvariable('thousandth_input')
                    AND output_thousandth < getvariable('thousandth_output'),
                    'error: too few elements of the outputs are within one thousandth while the inputs agree',
                    NULL
                ),
                if(other_requires_grad, message_of('trained apart'), NULL),
                if(matched AND target_kind <> golden_kind AND difference IS NOT NULL, 'error: the kinds of the values differ', NULL),
                if(
                    matched
                    AND target_kind = golden_kind
                    AND target_kind IN ('scalar', 'object')
                    AND other_type,
                    'error: the types of the values differ',
                    NULL
                ),
                if(
                    matched
                    AND target_kind = golden_kind
                    AND target_kind IN ('scalar', 'object')
                    AND NOT coalesce(other_type, false)
                    AND difference = 'different',
                    'error: the values differ',
                    NULL
                ),
                if(other_dtype, 'error: the dtypes differ', NULL),
                if(other_shape, 'error: the shapes differ', NULL),
                if(contradicts, 'error: the recorded statistics differ and the contents do not; one of them is of another moment or dump', NULL),
                if(by_digest AND other_digest, 'error: the digests differ', NULL),
                if(by_digest AND other_number, 'error: the values differ', NULL),
                if(
                    row = first_output
                    AND coalesce(measurement, 'scalar') = 'scalar'
                    AND if(
                        input_norm_error = 0,
                        output_norm_error > getvariable('norm_growth_from_zero'),
                        output_norm_error / input_norm_error > getvariable('norm_growth')
                    ),
                    'warning: the norm error grows from the inputs to the outputs',
                    NULL
                ),
                if(
                    row = first_output
                    AND input_cosine > getvariable('cosine_input')
                    AND input_cosine - output_cosine > getvariable('cosine_drop'),
                    'warning: the cosine falls from the inputs to the outputs',
                    NULL
                ),
                if(
                    by_digest AND target_kind = 'tensor' AND golden_kind = 'tensor' AND one_digest,
                    'warning: only one side has a digest',
                    NULL
                )
            ) AS found
        FROM judged
    )
SELECT
    row,
    CASE
        WHEN recomputed THEN 'recomputed'
        WHEN one_sided THEN 'skipped'
        WHEN NOT matched THEN 'unmatched'
        WHEN skipped THEN 'skipped'
        WHEN unreadable THEN 'unreadable'
        WHEN unrecorded THEN 'unrecorded'
        WHEN same_content AND NOT contradicts THEN 'equal'
        ELSE 'compared'
    END AS outcome,
    CASE
        WHEN recomputed OR skipped OR set_aside OR late_digest OR one_sided OR cut_off THEN 'skipped'
        WHEN starts_with(found, 'error') THEN 'error'
        WHEN found <> '' THEN 'warning'
        WHEN NOT matched THEN if(getvariable('unmatched_is_finding') = 1, 'unmatched', 'skipped')
        WHEN unreadable THEN 'unreadable'
        ELSE 'pass'
    END AS verdict,
    CASE
        WHEN unread THEN ['skipped: it is multiplied by 0']
        WHEN skipped THEN ['skipped: this memory was never written']
        WHEN set_aside THEN ['skipped: recorded before the data had to be there']
        WHEN late_digest THEN [message_of(if(is_zero, 'other zeros', 'late digest'))]
        WHEN one_sided THEN ['skipped: one side alone records the settings of optimizers']
        WHEN cut_off THEN ['skipped: the other side was cut off before']
        ELSE list_concat(
            if(found = '', [], string_split(found, chr(10))),
            if(unreadable, ['unreadable: ' || problem], [])
        )
    END AS messages
FROM findings
