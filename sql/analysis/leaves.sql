-- leaves: the first leaves that differ of each op that a summary names, in short; arguments before tensors, if there are many.
-- grain: one leaf of an op of one (step, rank)
-- error: how far the statistic that differs most is from golden's, as a share of golden's tensor; NULL without a share
-- parameters: $most (leaves of an op); the table summary_ops, the views results and own_metrics
WITH
    ops AS (
        SELECT DISTINCT step, rank, place, target_seq, only_golden_seq FROM summary_ops
    ),
    -- a paired op has the leaves that golden alone gives it
    partners AS (
        SELECT step, rank, golden_seq, min(target_seq) AS target_seq
        FROM results
        SEMI JOIN ops USING (step, rank, target_seq)
        WHERE golden_seq IS NOT NULL
        GROUP BY ALL
    ),
    listed AS (
        SELECT
            results.*,
            ops.place,
            -- not the whole row: for each field that the macro reads, DuckDB would make a struct of all columns
            {
                'target_max': target_max,
                'target_min': target_min,
                'target_mean': target_mean,
                'target_norm': target_norm,
                'golden_max': golden_max,
                'golden_min': golden_min,
                'golden_mean': golden_mean,
                'golden_norm': golden_norm,
                'golden_shape': golden_shape
            } AS statistics
        FROM ops
        JOIN results USING (step, rank)
        LEFT JOIN partners
            ON results.target_seq IS NULL
            AND partners.step = results.step
            AND partners.rank = results.rank
            AND partners.golden_seq = results.golden_seq
        WHERE
            (coalesce(results.target_seq, partners.target_seq) = ops.target_seq OR results.golden_seq = ops.only_golden_seq)
            AND (
                is_finding(difference, outcome, verdict)
                OR is_trained_apart(target_requires_grad, golden_requires_grad, verdict)
            )
    ),
    measured AS (
        SELECT *, farthest_statistic(statistics) AS farthest
        FROM listed
    )
SELECT
    step,
    rank,
    place,
    substr(coalesce(target_name, golden_name), length(coalesce(target_op, golden_op)) + 2) AS slot,
    CASE WHEN difference = 'equal' THEN 'requires_grad' ELSE coalesce(difference, 'unmatched') END AS difference,
    side_text(
        target_kind, target_type, target_dtype, target_shape, target_value,
        statistic_text(farthest.name, farthest.target, farthest.golden), target_digest,
        target_extra, target_requires_grad, golden_type, golden_extra, golden_requires_grad
    ) AS target,
    side_text(
        golden_kind, golden_type, golden_dtype, golden_shape, golden_value,
        statistic_text(farthest.name, farthest.golden, farthest.target), golden_digest,
        golden_extra, golden_requires_grad, target_type, target_extra, target_requires_grad
    ) AS golden,
    coalesce(own_metrics.text, '') AS metrics,
    if(
        target_kind = 'tensor'
        AND golden_kind = 'tensor'
        AND farthest.target IS NOT NULL
        AND farthest.golden IS NOT NULL
        AND isfinite(farthest.distance)
        AND farthest.distance > 0,
        farthest.distance,
        NULL
    ) AS error
FROM measured
LEFT JOIN own_metrics USING (step, rank, row)
-- of many leaves an argument that differs tells more than the noise of tensors, as in the step of a fused optimizer
QUALIFY
    row_number() OVER (
        PARTITION BY step, rank, place
        ORDER BY coalesce(target_kind <> 'tensor' AND golden_kind <> 'tensor', false) DESC, row
    ) <= $most
ORDER BY step, rank, place, row
