-- modules: which module leaves golden first, and which differs most.
-- grain: one module of one run, over all ranks, ordered by when it leaves, then by its largest distance
-- parameters: $runs; the table drift_rows
SELECT
    run,
    module,
    min(leaves_at) AS leaves_at,
    max(worst) AS worst,
    first(worst_at ORDER BY worst DESC, worst_at, name, rank) AS worst_at,
    first(name ORDER BY worst DESC, worst_at, name, rank) AS worst_row,
    count(*) FILTER (WHERE leaves_at IS NOT NULL) AS rows_away,
    count(*) AS rows
FROM drift_rows
WHERE module IS NOT NULL
GROUP BY run, module
ORDER BY list_position($runs, run), leaves_at NULLS LAST, worst DESC NULLS LAST, module
