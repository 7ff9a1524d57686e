-- findings_by_op: the ops of a comparison that differ or have rows without counterpart.
-- grain: one op of one (step, rank)
-- parameters: the view results (of any number of steps and ranks)
-- place: the op's place in the target; parameter gradients that old releases of msprobe write before the forward pass
--   come last, and an op that only the golden run has follows the paired op before it
-- is_passing_on: a module that differs only in arguments that one side alone gave it; the op that takes them tells more
-- cosine, norm_relative: of its worst tensor; reason: why its gravest row has its verdict, in words
-- first_row: the first of its rows that differs, which has its name, module and stack; leaves: how many rows differ
WITH
    paired_ops AS (
        SELECT DISTINCT step, rank, target_seq
        FROM results
        WHERE golden_seq IS NOT NULL AND target_seq IS NOT NULL
    ),
    -- leaves that are paired one by one may pair an op of golden with several of the target
    partners AS (
        SELECT step, rank, golden_seq, min(target_seq) AS target_seq
        FROM results
        WHERE golden_seq IS NOT NULL AND target_seq IS NOT NULL
        GROUP BY ALL
    ),
    early_gradients AS (
        SELECT step, rank, target_seq, max(target_seq) OVER unit + 1 + target_seq AS late_place
        FROM (
            SELECT step, rank, target_seq, any_value(target_op) AS op
            FROM results
            WHERE target_seq IS NOT NULL
            GROUP BY ALL
        ) AS ops
        WINDOW unit AS (PARTITION BY step, rank)
        QUALIFY
            regexp_matches(op, '\.parameters_grad(\.\d+)?$')
            AND target_seq < coalesce(min(target_seq) FILTER (WHERE regexp_matches(op, '\.backward(\.\d+)?$')) OVER unit, 'inf'::DOUBLE)
    ),
    rows AS (
        SELECT
            results.step,
            results.rank,
            row,
            coalesce(results.target_seq, partners.target_seq) AS target_seq,
            if(coalesce(results.target_seq, partners.target_seq) IS NULL, results.golden_seq, NULL) AS only_golden_seq,
            if(
                is_trained_apart(target_requires_grad, golden_requires_grad, verdict), 'different', difference
            ) AS difference,
            outcome,
            role = 'input' AND outcome = 'unmatched' AND is_module(coalesce(target_op, golden_op)) AS is_passed_on,
            verdict,
            max_relative_error,
            cosine,
            if(coalesce(target_kind, golden_kind) = 'tensor', norm_relative, NULL) AS norm_relative,
            substr(coalesce(target_name, golden_name), length(coalesce(target_op, golden_op)) + 2) AS slot,
            list_filter(messages, lambda message: starts_with(message, verdict || ': '))[1] AS message,
            coalesce(nullif(slot, '') || ': ', '') || substr(message, length(verdict) + 3) AS reason
        FROM results
        LEFT JOIN partners
            ON partners.step = results.step
            AND partners.rank = results.rank
            AND partners.golden_seq = results.golden_seq
            AND results.target_seq IS NULL
        WHERE
            is_finding(difference, outcome, verdict)
            OR is_trained_apart(target_requires_grad, golden_requires_grad, verdict)
    ),
    ops AS (
        SELECT
            step,
            rank,
            target_seq,
            only_golden_seq,
            bool_or(difference = 'different' OR outcome = 'unmatched') AS is_different,
            bool_and(is_passed_on) AS is_passing_on,
            count(*) FILTER (WHERE verdict = 'error') AS errors,
            count(*) FILTER (WHERE verdict = 'warning') AS warnings,
            max(max_relative_error) AS max_relative_error,
            min(cosine) AS cosine,
            max(norm_relative) FILTER (WHERE isfinite(norm_relative)) AS norm_relative,
            first(reason ORDER BY verdict <> 'error', verdict <> 'warning', row) AS reason,
            min(row) AS first_row,
            count(*) AS leaves
        FROM rows
        GROUP BY ALL
    )
SELECT
    ops.step,
    ops.rank,
    coalesce(early_gradients.late_place, ops.target_seq, place_after(before.target_seq, before.golden_seq, only_golden_seq)) AS place,
    ops.target_seq,
    only_golden_seq,
    CASE
        WHEN only_golden_seq IS NOT NULL THEN 'only in golden'
        WHEN paired_ops.target_seq IS NULL THEN 'only in target'
        WHEN is_different THEN 'different'
        ELSE 'noise'
    END AS finding,
    finding = 'different' AND is_passing_on AS is_passing_on,
    errors,
    warnings,
    max_relative_error,
    cosine,
    norm_relative,
    reason,
    first_row,
    leaves
FROM ops
LEFT JOIN paired_ops
    ON paired_ops.step = ops.step AND paired_ops.rank = ops.rank AND paired_ops.target_seq = ops.target_seq
LEFT JOIN early_gradients
    ON early_gradients.step = ops.step
    AND early_gradients.rank = ops.rank
    AND early_gradients.target_seq = ops.target_seq
ASOF LEFT JOIN partners AS before
    ON before.step = ops.step AND before.rank = ops.rank AND before.golden_seq <= ops.only_golden_seq
ORDER BY ops.step, ops.rank, place, first_row
