-- paired_twice: rows that a rule pairs more than once, or that do not exist. There must be none.
-- grain: one such row
WITH
    sides AS (
        SELECT 'target' AS side, target_row AS row, count(*) AS pairs FROM pairs GROUP BY target_row
        UNION ALL
        SELECT 'golden' AS side, golden_row AS row, count(*) AS pairs FROM pairs GROUP BY golden_row
    ),
    known AS (
        SELECT 'target' AS side, row FROM target_leaves
        UNION ALL
        SELECT 'golden' AS side, row FROM golden_leaves
    )
SELECT
    sides.side,
    sides.row,
    sides.pairs
FROM sides
LEFT JOIN known ON known.side = sides.side AND known.row = sides.row
WHERE sides.pairs > 1 OR known.row IS NULL
ORDER BY sides.side DESC, sides.row
LIMIT 5
