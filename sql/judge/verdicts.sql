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
            t.type IS DISTINCT FROM g.type AS other_type,
            t.dtype <> g.dtype AS other_dtype,
            t.shape <> g.shape AS other_shape,
            t.requires_grad <> g.requires_grad AS other_requires_grad,
            t.digest <> g.digest AS other_digest,
            (t.digest IS NULL) <> (g.digest IS NULL) AS one_digest,
            isfinite(coalesce(t.max, t.number)) AS target_max_finite,
            isfinite(coalesce(t.min, t.number)) AS target_min_finite,
            isfinite(coalesce(g.max, g.number)) AS golden_max_finite,
            isfinite(coalesce(g.min, g.number)) AS golden_min_finite,
            m.measurement,
            m.max_diff,
            m.min_diff,
            m.norm_relative,
            m.one_thousandth_ratio,
            m.cosine,
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
    -- one letter per finding, so that texts are only made for rows that have one
    coded AS (
        SELECT
            rows.*,
            concat(
                CASE
                    WHEN
                        coalesce(golden_max_finite AND golden_min_finite, true)
                        AND NOT coalesce(target_max_finite AND target_min_finite, true)
                        THEN 'A'
                END,
                CASE
                    WHEN
                        measurement = 'nonfinite'
                        OR (
                            measurement IS NULL
                            AND (
                                NOT target_max_finite AND NOT golden_max_finite AND max_diff <> 0
                                OR NOT target_min_finite AND NOT golden_min_finite AND min_diff <> 0
                            )
                        )
                        THEN 'B'
                END,
                CASE
                    WHEN
                        is_output
                        AND measurement IS NULL
                        AND input_norm_error < getvariable('norm_error_input')
                        AND norm_relative > getvariable('norm_error_output')
                        THEN 'C'
                END,
                CASE
                    WHEN
                        row = first_output
                        AND input_thousandth > getvariable('thousandth_input')
                        AND output_thousandth < getvariable('thousandth_output')
                        THEN 'D'
                END,
                CASE WHEN other_requires_grad THEN 'E' END,
                CASE
                    WHEN matched AND target_kind <> golden_kind THEN 'F'
                    WHEN matched AND target_kind IN ('scalar', 'object') AND other_type THEN 'G'
                    WHEN matched AND target_kind IN ('scalar', 'object') AND difference = 'different' THEN 'H'
                END,
                CASE WHEN other_dtype THEN 'I' END,
                CASE WHEN other_shape THEN 'J' END,
                CASE WHEN by_digest AND other_digest THEN 'K' END,
                CASE
                    WHEN
                        row = first_output
                        AND measurement IS NULL
                        AND if(
                            input_norm_error = 0,
                            output_norm_error > getvariable('norm_growth_from_zero'),
                            output_norm_error / input_norm_error > getvariable('norm_growth')
                        )
                        THEN 'a'
                END,
                CASE
                    WHEN
                        row = first_output
                        AND input_cosine > getvariable('cosine_input')
                        AND input_cosine - output_cosine > getvariable('cosine_drop')
                        THEN 'b'
                END,
                CASE
                    WHEN by_digest AND target_kind = 'tensor' AND golden_kind = 'tensor' AND one_digest THEN 'c'
                END
            ) AS codes
        FROM rows
        LEFT JOIN per_op USING (op_number)
        CROSS JOIN (SELECT kind = 'digest' AS by_digest FROM comparison_kind)
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
        WHEN codes SIMILAR TO '.*[A-Z].*' THEN 'error'
        WHEN codes <> '' THEN 'warning'
        WHEN NOT matched THEN 'unmatched'
        WHEN unreadable THEN 'unreadable'
        ELSE 'pass'
    END AS verdict,
    CASE
        WHEN skipped THEN ['skipped: this memory was never written']
        WHEN codes = '' THEN []::VARCHAR[]
        ELSE list_transform(string_split(codes, ''), lambda code: message_of(code))
    END AS messages
FROM coded
