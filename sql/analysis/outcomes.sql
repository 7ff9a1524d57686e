-- outcomes: how the rows of a comparison ended, per side; the counts of a side add up to its rows in the lake.
-- grain: one (step, rank, outcome, verdict)
-- parameters: the view results
SELECT
    step,
    rank,
    outcome,
    verdict,
    count(*) AS rows,
    count(target_row) AS target_rows,
    count(golden_row) AS golden_rows,
    count(*) FILTER (WHERE difference = 'equal') AS equal_rows,
    count(*) FILTER (WHERE difference = 'noise') AS noise_rows,
    count(*) FILTER (WHERE difference = 'different') AS different_rows
FROM results
GROUP BY ALL
ORDER BY ALL
