-- parameters: the findings of each parameter of two checkpoints.
-- grain: one row of the comparison (a pair, or a parameter without counterpart)
-- tensor_order says in which order the elements of one tensor lie in the other; it is asked only where both have as many,
-- with the same extremes and nearly the same norm, and do not lie nearly alike.
-- other_target and other_golden are the parameters whose contents the row's other side has: of q and k that are swapped,
-- each has what the other should have, and golden's own counterpart of that does not.
-- twin: the parameter that shares its memory with one that the other side lacks, or, where a format does not record
-- that, has its contents: a tied weight, which some formats keep once.
WITH
    names AS (
        SELECT
            p.*,
            t.op AS target_op,
            g.op AS golden_op,
            t.op_extra ->> '$.shares' AS target_shares,
            g.op_extra ->> '$.shares' AS golden_shares,
            t.op_extra IS NOT NULL AS target_keeps,
            g.op_extra IS NOT NULL AS golden_keeps,
            target_keeps AND golden_keeps AS knows_sharing
        FROM paired AS p
        LEFT JOIN target_ops AS t ON t.seq = p.target_seq
        LEFT JOIN golden_ops AS g ON g.seq = p.golden_seq
    ),
    counterparts AS (
        SELECT target_op, golden_op FROM names WHERE target_op IS NOT NULL AND golden_op IS NOT NULL
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
            n.knows_sharing,
            n.target_shares,
            n.golden_shares,
            CASE
                WHEN n.golden_row IS NULL THEN coalesce(n.target_shares, if(n.target_keeps, NULL, target_twin.target_op))
                WHEN n.target_row IS NULL THEN coalesce(n.golden_shares, if(n.golden_keeps, NULL, golden_twin.golden_op))
            END AS twin,
            coalesce(
                if(n.golden_row IS NULL, twin IN (SELECT target_op FROM counterparts), twin IN (SELECT golden_op FROM counterparts)),
                false
            ) AS is_kept_once,
            coalesce(tied.golden_op, n.target_shares) AS target_shares_as_golden,
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
        LEFT JOIN target_holders AS target_twin ON target_twin.content = n.target_content
        LEFT JOIN golden_holders AS golden_twin ON golden_twin.content = n.golden_content
        LEFT JOIN counterparts AS tied ON tied.target_op = n.target_shares
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
                        'holds': matched AND knows_sharing AND target_shares IS NULL AND golden_shares IS NOT NULL
                    },
                    {
                        'severity': 'warning',
                        'text': 'tied to ' || target_shares || ', and not in golden',
                        'holds':
                            matched
                            AND knows_sharing
                            AND target_shares IS NOT NULL
                            AND golden_shares IS DISTINCT FROM target_shares_as_golden
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
