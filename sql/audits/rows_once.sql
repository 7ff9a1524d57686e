-- rows_once: a comparison has each row of both sides exactly once.
-- grain: one violation: a comparison, (step, rank) and side
SELECT comparison, step, rank, 'target' AS side, count(target_row) AS rows, count(DISTINCT target_row) AS distinct_rows
FROM results
GROUP BY comparison, step, rank
HAVING count(target_row) <> count(DISTINCT target_row) OR coalesce(max(target_row), -1) <> count(target_row) - 1
UNION ALL
SELECT comparison, step, rank, 'golden' AS side, count(golden_row) AS rows, count(DISTINCT golden_row) AS distinct_rows
FROM results
GROUP BY comparison, step, rank
HAVING count(golden_row) <> count(DISTINCT golden_row) OR coalesce(max(golden_row), -1) <> count(golden_row) - 1
