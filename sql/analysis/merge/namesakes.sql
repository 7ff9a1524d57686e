-- namesakes: names the second row of one name in a rank `name (2)`, and so on, so that none hides another.
-- grain: one row that has the name of an earlier row of its rank
-- parameters: the table merge_places
UPDATE merge_places
SET name = merge_places.name || ' (' || namesakes.number || ')'
FROM (
    SELECT
        merge_places.rowid AS id,
        row_number() OVER (PARTITION BY rank, name ORDER BY place) AS number
    FROM merge_places
    -- a window sorts the names of all rows, and few have a namesake
    SEMI JOIN (SELECT rank, name FROM merge_places GROUP BY ALL HAVING count(*) > 1) AS several USING (rank, name)
    QUALIFY number > 1
) AS namesakes
WHERE merge_places.rowid = namesakes.id
