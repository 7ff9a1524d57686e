-- verdicts: the findings of each row of the comparison.
-- grain: one row of the comparison (a pair, or a row without counterpart)
-- The rules are those of msprobe 26.2 (facts 4.7), per op: inputs (arguments and parameters) against outputs; where
-- it is wrong we are right (docs/differences.md). Thresholds: judge/thresholds.sql.
WITH
    rows AS (
        SELECT
            pairing.row,
            coalesce(t.seq, -1 - g.seq) AS op_number,
            pairing.target_row IS NOT NULL AND pairing.golden_row IS NOT NULL AS matched,
            coalesce(t.role, g.role) = 'output' AS is_output,
            t.kind AS target_kind,
            g.kind AS golden_kind,
            t.type AS target_type,
            g.type AS golden_type,
            t.dtype AS target_dtype,
            g.dtype AS golden_dtype,
            t.shape AS target_shape,
            g.shape AS golden_shape,
            t.requires_grad AS target_requires_grad,
            g.requires_grad AS golden_requires_grad,
            t.digest AS target_digest,
            g.digest AS golden_digest,
            number_of(t.kind, t.stat_types[1], t.max, t.value) AS target_max,
            number_of(t.kind, t.stat_types[2], t.min, t.value) AS target_min,
            number_of(g.kind, g.stat_types[1], g.max, g.value) AS golden_max,
            number_of(g.kind, g.stat_types[2], g.min, g.value) AS golden_min,
            m.* EXCLUDE (row),
            d.difference,
            u.api IS NOT NULL AS skipped,
            coalesce(t.content = g.content, false) AS same_content,
            t.data_name IS NOT NULL
            AND g.data_name IS NOT NULL
            AND (coalesce(t.content_problem, g.content_problem) IS NOT NULL OR m.measurement = 'unreadable')
                AS unreadable
        FROM pairing
        LEFT JOIN target AS t ON t.row = pairing.target_row
        LEFT JOIN golden AS g ON g.row = pairing.golden_row
        LEFT JOIN metrics AS m ON m.row = pairing.row
        LEFT JOIN differences AS d ON d.row = pairing.row
        LEFT JOIN uninitialised AS u
            ON u.api = coalesce(t.api, g.api)
            AND u.role = coalesce(t.role, g.role)
            AND coalesce(u.slot, t.slot, g.slot) = coalesce(t.slot, g.slot)
            AND coalesce(t.direction, g.direction) = 'forward'
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
        WHERE NOT skipped
        GROUP BY op_number
    ),
    findings AS (
        SELECT
            rows.*,
            [
                CASE
                    WHEN
                        coalesce(isfinite(golden_max) AND isfinite(golden_min), true)
                        AND NOT coalesce(isfinite(target_max) AND isfinite(target_min), true)
                        THEN 'NaN or inf in the target where the golden run has none'
                END,
                CASE
                    WHEN measurement = 'nonfinite'
                        THEN 'NaN or inf at different places, or inf of different sign'
                    WHEN
                        matched AND measurement IS NULL AND NOT isfinite(target_max) AND NOT isfinite(golden_max)
                        AND max_diff <> 0
                        OR matched AND measurement IS NULL AND NOT isfinite(target_min) AND NOT isfinite(golden_min)
                        AND min_diff <> 0
                        THEN 'inf of different sign, or inf against NaN'
                END,
                CASE
                    WHEN
                        is_output
                        AND input_norm_error < getvariable('norm_error_input')
                        AND norm_relative > getvariable('norm_error_output')
                        AND measurement IS NULL
                        THEN 'the norm of this output is off while the inputs agree'
                END,
                CASE
                    WHEN
                        rows.row = first_output
                        AND input_thousandth > getvariable('thousandth_input')
                        AND output_thousandth < getvariable('thousandth_output')
                        THEN 'few elements of the outputs are within one thousandth while the inputs agree'
                END,
                CASE
                    WHEN matched AND target_requires_grad <> golden_requires_grad
                        THEN 'requires_grad differs'
                END,
                CASE
                    WHEN matched AND target_kind <> golden_kind
                        THEN 'a ' || target_kind || ' is held against a ' || golden_kind
                    WHEN matched AND target_kind IN ('scalar', 'object') AND target_type <> golden_type
                        THEN 'the types of the values differ'
                    WHEN matched AND target_kind IN ('scalar', 'object') AND difference = 'different' AND NOT is_output
                        THEN 'the arguments differ'
                    WHEN matched AND target_kind IN ('scalar', 'object') AND difference = 'different'
                        THEN 'the values differ'
                END,
                CASE WHEN matched AND target_dtype <> golden_dtype THEN 'the dtypes differ' END,
                CASE WHEN matched AND target_shape <> golden_shape THEN 'the shapes differ' END,
                CASE
                    WHEN matched AND by_digest AND target_digest <> golden_digest THEN 'the digests differ'
                END
            ] AS errors,
            [
                CASE
                    WHEN
                        rows.row = first_output
                        AND measurement IS NULL
                        AND if(
                            input_norm_error = 0,
                            output_norm_error > getvariable('norm_growth_from_zero'),
                            output_norm_error / input_norm_error > getvariable('norm_growth')
                        )
                        THEN 'the norm error grows from the inputs to the outputs'
                END,
                CASE
                    WHEN
                        rows.row = first_output
                        AND input_cosine > getvariable('cosine_input')
                        AND input_cosine - output_cosine > getvariable('cosine_drop')
                        THEN 'the cosine falls from the inputs to the outputs'
                END,
                CASE
                    WHEN
                        matched AND by_digest AND target_kind = 'tensor' AND golden_kind = 'tensor'
                        AND (target_digest IS NULL) <> (golden_digest IS NULL)
                        THEN 'only one side has a digest'
                END
            ] AS warnings
        FROM rows
        LEFT JOIN per_op USING (op_number)
        CROSS JOIN (SELECT kind = 'digest' AS by_digest FROM comparison_kind) AS kind
    ),
    graded AS (
        SELECT
            row,
            matched,
            skipped,
            unreadable,
            same_content,
            list_transform(list_filter(errors, lambda text: text IS NOT NULL), lambda text: 'error: ' || text) AS errors,
            list_transform(list_filter(warnings, lambda text: text IS NOT NULL), lambda text: 'warning: ' || text) AS warnings
        FROM findings
    )
SELECT
    row,
    CASE
        WHEN NOT matched THEN 'unmatched'
        WHEN skipped THEN 'skipped'
        WHEN unreadable THEN 'unreadable'
        WHEN same_content THEN 'equal'
        ELSE 'compared'
    END AS outcome,
    CASE
        WHEN skipped THEN 'skipped'
        WHEN len(errors) > 0 THEN 'error'
        WHEN len(warnings) > 0 THEN 'warning'
        WHEN NOT matched THEN 'unmatched'
        WHEN unreadable THEN 'unreadable'
        ELSE 'pass'
    END AS verdict,
    CASE WHEN skipped THEN ['skipped: this memory was never written'] ELSE list_concat(errors, warnings) END AS messages
FROM graded
