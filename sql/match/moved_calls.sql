-- moved_calls: APIs and modules of which one run lacks the gradient of some calls, or computed them in another order, as of
--   micro batches.
-- grain: one (part, stem)
-- parameters: the tables comparison_kind, target_ops and golden_ops
-- There, order would pair the gradients of different calls. Names tell them apart if lakeprobe collected both runs, no call
--   comes twice in one, and one has all calls of the other. If not, as where one side recomputes activations, order remains.
WITH
    target AS (
        SELECT part, stem, list(call ORDER BY seq) AS calls
        FROM target_ops
        WHERE direction = 'backward' AND call IS NOT NULL
        GROUP BY part, stem
    ),
    golden AS (
        SELECT part, stem, list(call ORDER BY seq) AS calls
        FROM golden_ops
        WHERE direction = 'backward' AND call IS NOT NULL
        GROUP BY part, stem
    )
SELECT part, stem
FROM target
JOIN golden USING (part, stem)
WHERE
    (SELECT are_collected FROM comparison_kind)
    AND target.calls <> golden.calls
    AND len(target.calls) = list_unique(target.calls)
    AND len(golden.calls) = list_unique(golden.calls)
    AND (list_has_all(target.calls, golden.calls) OR list_has_all(golden.calls, target.calls))
