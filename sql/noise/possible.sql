-- possible: the kinds of evidence that this comparison can have. Each has a statement of its own, which takes long to plan.
-- grain: one row, with one value
-- parameters: the tables paired, differences, verdicts, noise_ops, noise_leaves and noise_makers
-- possible: false under the name of a statement (noise/arguments and so on) that can give no row
SELECT
    {
        'arguments': unpaired.are_there
        OR EXISTS (
            FROM differences
            JOIN paired USING (row)
            WHERE
                difference = 'different'
                AND (
                    target_kind <> 'tensor'
                    OR golden_kind <> 'tensor'
                    OR target_dtype IS DISTINCT FROM golden_dtype
                    OR target_shape IS DISTINCT FROM golden_shape
                )
        )
        OR EXISTS (FROM verdicts WHERE list_contains(messages, message_of('trained apart'))),
        'missing': EXISTS (FROM noise_ops WHERE side <> 'pair'),
        'sources': coalesce(sources.are_there, false),
        'given_gradients': coalesce(sources.are_gradients, false),
        'zeros': coalesce(outputs.have_zeros, false),
        'stopped': coalesce(outputs.have_stopped, false),
        'nonfinite': coalesce(outputs.are_nonfinite, false)
    } AS possible
FROM (SELECT EXISTS (FROM paired WHERE target_row IS NULL OR golden_row IS NULL) AS are_there) AS unpaired
CROSS JOIN (
    SELECT
        bool_or(is_source AND phase = 'forward') AS are_there,
        bool_or(differs AND phase <> 'forward' AND is_float AND (n > 1 OR is_other_constant)) AS are_gradients
    FROM noise_makers
    WHERE (differs OR has_other_sums) AND (is_source OR phase = 'optimizer')
) AS sources
CROSS JOIN (
    SELECT
        bool_or(NOT is_input AND target_zeros > 0) AS have_zeros,
        bool_or(role = 'parameters_grad' AND (target_norm = 0) <> (golden_norm = 0)) AS have_stopped,
        bool_or(is_nonfinite) AS are_nonfinite
    FROM noise_leaves
) AS outputs
