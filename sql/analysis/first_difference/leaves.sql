-- leaves: the inputs and outputs of each rank's first difference, with both sides and their error.
-- grain: one leaf of the first op that differs of a (step, rank)
-- parameters: $ranks (empty: all); the tables firsts, first_rows, first_ops, leaf_errors, doubtful and sources
-- An op that one side alone has may have a namesake on the other, which is another call: it is shown alone
-- error: as in leaf_errors; doubtful: why the record was set aside; source: the golden op that made this input,
--   and how that output differs: equal, noise or different
SELECT
    results.step,
    results.rank,
    first_ops.op,
    if(results.role IN ('input', 'parameters'), 'input', 'output') AS side,
    substr(coalesce(target_name, golden_name), length(coalesce(target_op, results.golden_op)) + 2) AS slot,
    CASE
        WHEN firsts.finding LIKE 'only in %' THEN 'unmatched'
        WHEN results.difference = 'equal' AND is_trained_apart(target_requires_grad, golden_requires_grad, verdict)
            THEN 'requires_grad'
        WHEN results.difference = 'different' AND results.outcome = 'skipped' THEN 'not judged'
        ELSE coalesce(results.difference, results.outcome)
    END AS difference,
    CASE
        WHEN firsts.finding LIKE 'only in %' THEN NULL
        WHEN results.difference = 'equal' THEN 0
        ELSE leaf_errors.error
    END AS error,
    if(
        firsts.finding = 'only in golden',
        '–',
        side_text(
            target_kind, target_type, target_dtype, target_shape, target_value,
            statistic_text(farthest.name, farthest.target, farthest.golden), target_digest,
            target_extra, target_requires_grad, golden_type, golden_extra, golden_requires_grad
        )
    ) AS target,
    if(
        firsts.finding = 'only in target',
        '–',
        side_text(
            golden_kind, golden_type, golden_dtype, golden_shape, golden_value,
            statistic_text(farthest.name, farthest.golden, farthest.target), golden_digest,
            golden_extra, golden_requires_grad, target_type, target_extra, target_requires_grad
        )
    ) AS golden,
    max_diff,
    min_diff,
    mean_diff,
    norm_diff,
    cosine,
    max_abs_error,
    max_relative_error,
    doubtful.reason AS doubtful,
    sources.source_op,
    sources.source_difference,
    sources.row IS NOT NULL AS is_traced
FROM (SELECT *, farthest_statistic(first_rows) AS farthest FROM first_rows) AS results
JOIN first_ops USING (step, rank)
JOIN firsts USING (step, rank)
LEFT JOIN leaf_errors
    ON leaf_errors.step = results.step AND leaf_errors.rank = results.rank AND leaf_errors.row = results.row
LEFT JOIN doubtful ON doubtful.step = results.step AND doubtful.rank = results.rank AND doubtful.row = results.row
LEFT JOIN sources ON sources.step = results.step AND sources.rank = results.rank AND sources.row = results.row
WHERE len($ranks::INTEGER[]) = 0 OR list_contains($ranks::INTEGER[], results.rank)
ORDER BY results.step, results.rank, results.row
