-- namesakes: names the second row of one name in a rank `name (2)`, and so on, so that none hides another.
-- grain: one row that has the name of an earlier row of its rank
-- parameters: the table merge_cells
UPDATE merge_cells
SET name = merge_cells.name || ' (' || namesakes.number || ')'
FROM (
    SELECT rowid AS id, row_number() OVER (PARTITION BY rank, name ORDER BY place) AS number
    FROM merge_cells
    QUALIFY number > 1
) AS namesakes
WHERE merge_cells.rowid = namesakes.id
