-- outcomes: how the rows of a comparison ended, per side; the counts of a side add up to its rows in the lake.
-- grain: one (step, rank, outcome, verdict)
-- parameters: the view results
-- equal_rows, noise_rows, different_rows: pairs that were judged, and unreadable tensors whose recorded statistics show
--   that they differ, or tensors that one run trains and the other does not. Nothing is known of rows that were set aside or lack values on both sides
-- excused_rows: rows that are findings by their numbers alone, although they differ by noise only
SELECT
    step,
    rank,
    outcome,
    verdict,
    count(*) AS rows,
    count(target_row) AS target_rows,
    count(golden_row) AS golden_rows,
    count(*) FILTER (WHERE difference = 'equal' AND NOT is_trained_apart AND is_judged) AS equal_rows,
    count(*) FILTER (WHERE difference = 'noise' AND is_judged) AS noise_rows,
    count(*) FILTER (WHERE (difference = 'different' OR difference = 'equal' AND is_trained_apart) AND is_judged) AS different_rows,
    count(*) FILTER (
        WHERE
            difference = 'noise'
            AND is_judged
            AND verdict IN ('error', 'warning')
            AND target_requires_grad IS NOT DISTINCT FROM golden_requires_grad
    ) AS excused_rows
FROM (
    SELECT
        *,
        outcome IN ('compared', 'equal', 'unreadable') AND verdict <> 'skipped' AS is_judged,
        is_trained_apart(target_requires_grad, golden_requires_grad, verdict) AS is_trained_apart
    FROM results
) AS rows
GROUP BY ALL
ORDER BY ALL
