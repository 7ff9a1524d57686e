-- paired_twice: rows that a rule pairs more than once, or that do not exist. Violations: there may be none.
-- grain: one such row
SELECT 'target' AS side, target_row AS row, count(*) AS pairs
FROM pairs
GROUP BY target_row
HAVING count(*) > 1 OR target_row IS NULL
UNION ALL
SELECT 'golden' AS side, golden_row AS row, count(*) AS pairs
FROM pairs
GROUP BY golden_row
HAVING count(*) > 1 OR golden_row IS NULL
ORDER BY side DESC, row
LIMIT 5
