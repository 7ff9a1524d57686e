-- parameters: the findings of each parameter of two checkpoints.
-- grain: one row of the comparison (a pair, or a parameter without counterpart)
-- tensor_order says in which order the elements of one tensor lie in the other; it is asked only where both have as many,
-- with the same extremes and nearly the same norm, and do not lie nearly alike.
-- other_target and other_golden are the parameters whose contents the row's other side has: of q and k that are swapped,
-- each has what the other should have, and golden's own counterpart of that does not.
-- tie: what tied weights have in common: their memory, by the name that a file gives it first, or, where a format does
-- not record that, their contents. Which name comes first depends on the file, so ties are told by rows that both have.
-- twin: the parameter that is tied to one that the other side lacks: some formats keep a tied weight once.
WITH
    names AS (
        SELECT
            p.*,
            t.op AS target_op,
            g.op AS golden_op,
            CASE
                WHEN t.op_extra IS NOT NULL THEN concat_ws('/', t.part, coalesce(t.op_extra ->> '$.shares', t.op))
                WHEN len(p.target_shape) > 1 THEN p.target_content
            END AS target_tie,
            CASE
                WHEN g.op_extra IS NOT NULL THEN concat_ws('/', g.part, coalesce(g.op_extra ->> '$.shares', g.op))
                WHEN len(p.golden_shape) > 1 THEN p.golden_content
            END AS golden_tie,
            t.op_extra IS NOT NULL AND g.op_extra IS NOT NULL AS knows_sharing
        FROM paired AS p
        LEFT JOIN target_ops AS t ON t.seq = p.target_seq
        LEFT JOIN golden_ops AS g ON g.seq = p.golden_seq
    ),
    target_ties AS (
        SELECT target_tie AS tie, min(row) AS first_row, arg_min(target_op, row) AS first_op
        FROM names
        WHERE golden_row IS NOT NULL
        GROUP BY target_tie
    ),
    golden_ties AS (
        SELECT golden_tie AS tie, min(row) AS first_row, arg_min(golden_op, row) AS first_op
        FROM names
        WHERE target_row IS NOT NULL
        GROUP BY golden_tie
    ),
    target_holders AS (
        SELECT target_content AS content, arg_min(target_op, target_row) AS target_op
        FROM names
        WHERE target_content IS NOT NULL AND len(target_shape) > 1
        GROUP BY target_content
    ),
    golden_holders AS (
        SELECT golden_content AS content, arg_min(golden_op, golden_row) AS golden_op
        FROM names
        WHERE golden_content IS NOT NULL AND len(golden_shape) > 1
        GROUP BY golden_content
    ),
    golden_moved AS (
        SELECT golden_content AS content, arg_min(golden_op, golden_row) AS golden_op
        FROM names
        LEFT JOIN differences AS d ON d.row = names.row
        WHERE golden_content IS NOT NULL AND len(golden_shape) > 1 AND d.difference IS DISTINCT FROM 'equal'
        GROUP BY golden_content
    ),
    rows AS (
        SELECT
            n.row,
            n.target_row IS NOT NULL AND n.golden_row IS NOT NULL AS matched,
            n.target_row IS NULL AS only_golden,
            n.target_kind,
            n.golden_kind,
            n.target_shape,
            n.golden_shape,
            element_type(n.target_dtype) AS target_type,
            element_type(n.golden_dtype) AS golden_type,
            n.target_content = n.golden_content AS same_content,
            m.values_equal,
            m.max_abs_error,
            m.cosine,
            m.measurement,
            d.difference,
            d.difference = 'different' AND n.target_content <> n.golden_content AS is_other,
            target_holders.target_op AS other_target,
            if(n.golden_row IS NULL, golden_holders.golden_op, golden_moved.golden_op) AS other_golden,
            CASE
                WHEN n.golden_row IS NULL THEN target_ties.first_op
                WHEN n.target_row IS NULL THEN golden_ties.first_op
            END AS twin,
            twin IS NOT NULL AS is_kept_once,
            n.knows_sharing AND target_ties.first_row <> golden_ties.first_row AS tied_otherwise,
            if(target_ties.first_row < n.row, target_ties.first_op, NULL) AS target_shares,
            if(golden_ties.first_row < n.row, golden_ties.first_op, NULL) AS golden_shares,
            coalesce(n.content_problem, m.measurement_problem) AS problem,
            n.content_problem IS NOT NULL OR coalesce(m.measurement = 'unreadable', false) AS unreadable,
            is_within(m.max_abs_error, 2 * greatest(epsilon_of(n.target_dtype), epsilon_of(n.golden_dtype)) * m.scale_max)
                AS is_rounded,
            CASE
                WHEN
                    d.difference = 'different'
                    AND n.target_content <> n.golden_content
                    AND coalesce(m.values_equal, false) = false
                    AND coalesce(m.cosine, 0) < getvariable('cosine_input')
                    AND coalesce(list_aggregate(n.target_shape, 'product'), 1)
                    = coalesce(list_aggregate(n.golden_shape, 'product'), 1)
                    AND n.target_max = n.golden_max
                    AND n.target_min = n.golden_min
                    AND abs(n.target_norm - n.golden_norm) <= getvariable('same_norm') * n.golden_norm
                    THEN tensor_order(t.reference, g.reference)
            END AS element_order
        FROM names AS n
        LEFT JOIN metrics AS m ON m.row = n.row
        LEFT JOIN differences AS d ON d.row = n.row
        LEFT JOIN target_contents AS t ON t.content = n.target_content
        LEFT JOIN golden_contents AS g ON g.content = n.golden_content
        LEFT JOIN target_holders ON target_holders.content = n.golden_content
        LEFT JOIN golden_holders ON golden_holders.content = n.target_content
        LEFT JOIN golden_moved ON golden_moved.content = n.target_content
        LEFT JOIN target_ties ON target_ties.tie = n.target_tie
        LEFT JOIN golden_ties ON golden_ties.tie = n.golden_tie
    ),
    findings AS (
        SELECT
            *,
            list_filter(
                [
                    {
                        'severity': 'error',
                        'text': 'missing in the target' || coalesce('; its values are there as ' || other_target, ''),
                        'holds': only_golden AND golden_kind = 'tensor' AND NOT is_kept_once
                    },
                    {
                        'severity': 'warning',
                        'text': 'only in the target' || coalesce('; golden has its values as ' || other_golden, ''),
                        'holds': NOT matched AND NOT only_golden AND target_kind = 'tensor' AND NOT is_kept_once
                    },
                    {
                        'severity': 'note',
                        'text': 'tied to ' || twin || ', which the other side has once',
                        'holds': is_kept_once
                    },
                    {
                        'severity': 'note',
                        'text': if(only_golden, 'a value that only golden has', 'a value that only the target has'),
                        'holds': NOT matched AND coalesce(target_kind, golden_kind) <> 'tensor'
                    },
                    {
                        'severity': 'error',
                        'text': 'the kinds of the values differ',
                        'holds': matched AND target_kind <> golden_kind
                    },
                    {
                        'severity': 'warning',
                        'text': if(target_type IS NULL, 'the target''s cannot be read', 'golden''s cannot be read'),
                        'holds':
                            target_kind = 'tensor'
                            AND golden_kind = 'tensor'
                            AND (target_type IS NULL) <> (golden_type IS NULL)
                    },
                    {
                        'severity': 'error',
                        'text': 'the values differ',
                        'holds':
                            matched
                            AND target_kind = golden_kind
                            AND target_kind <> 'tensor'
                            AND difference = 'different'
                    },
                    {
                        'severity': 'error',
                        'text': 'has what golden has as ' || other_golden,
                        'holds': matched AND is_other AND other_golden IS NOT NULL
                    },
                    {
                        'severity': 'error',
                        'text': element_order,
                        'holds': element_order IS NOT NULL AND other_golden IS NULL
                    },
                    {
                        'severity': 'error',
                        'text': format('the shapes differ: {} against {}', target_shape, golden_shape),
                        'holds': matched AND target_shape <> golden_shape AND element_order IS NULL AND other_golden IS NULL
                    },
                    {
                        'severity': 'warning',
                        'text':
                            'cast: ' || target_type || ' against ' || golden_type
                            || CASE
                                WHEN values_equal THEN ', with the same values'
                                WHEN is_rounded THEN ', rounded'
                                ELSE ''
                            END,
                        'holds': matched AND target_type <> golden_type
                    },
                    {
                        'severity': 'error',
                        'text': 'NaN or inf at different places, or inf of different sign',
                        'holds': coalesce(measurement = 'nonfinite', false)
                    },
                    {
                        'severity': 'error',
                        'text': format('the values differ by up to {:.3g}', max_abs_error)
                            || coalesce(format(', cosine {:.6f}', cosine), ''),
                        'holds':
                            matched
                            AND values_equal = false
                            AND max_abs_error IS NOT NULL
                            AND element_order IS NULL
                            AND other_golden IS NULL
                            AND NOT (target_type <> golden_type AND coalesce(is_rounded, false))
                    },
                    {
                        'severity': 'warning',
                        'text': 'not tied: golden shares it with ' || golden_shares,
                        'holds': matched AND tied_otherwise AND golden_shares IS NOT NULL
                    },
                    {
                        'severity': 'warning',
                        'text': 'tied to ' || target_shares || ', and not in golden',
                        'holds': matched AND tied_otherwise AND target_shares IS NOT NULL
                    }
                ],
                lambda finding: coalesce(finding.holds, false)
            ) AS found
        FROM rows
    )
SELECT
    row,
    CASE
        WHEN is_kept_once THEN 'structure'
        WHEN NOT matched THEN 'unmatched'
        WHEN unreadable THEN 'unreadable'
        WHEN difference IS NULL THEN 'unrecorded'
        WHEN same_content THEN 'equal'
        ELSE 'compared'
    END AS outcome,
    CASE
        WHEN is_kept_once THEN 'skipped'
        WHEN NOT matched THEN if(coalesce(target_kind, golden_kind) = 'tensor', 'unmatched', 'skipped')
        WHEN list_bool_or(list_transform(found, lambda finding: finding.severity = 'error')) THEN 'error'
        WHEN len(found) > 0 THEN 'warning'
        WHEN unreadable THEN 'unreadable'
        ELSE 'pass'
    END AS verdict,
    list_concat(
        list_transform(found, lambda finding: finding.severity || ': ' || finding.text),
        if(matched AND unreadable, ['unreadable: ' || problem], [])
    ) AS messages
FROM findings
