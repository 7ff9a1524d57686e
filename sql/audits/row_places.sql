-- row_places: the rows and the ops of a unit are numbered from 0 without gaps.
-- grain: one unit and table with a gap
SELECT run, step, rank, 'tensors' AS table_name, count(*) AS rows, min(row) AS first, max(row) AS last
FROM tensors
GROUP BY run, step, rank
HAVING min(row) <> 0 OR max(row) <> count(*) - 1 OR count(DISTINCT row) <> count(*)
UNION ALL
SELECT run, step, rank, 'ops' AS table_name, count(*) AS rows, min(seq) AS first, max(seq) AS last
FROM ops
GROUP BY run, step, rank
HAVING min(seq) <> 0 OR max(seq) <> count(*) - 1 OR count(DISTINCT seq) <> count(*)
