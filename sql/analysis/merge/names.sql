-- names: the rows of a sheet, in the order of the run.
-- grain: one row name
-- parameters: the table merge_cells
SELECT name, min(place) AS place
FROM merge_cells
GROUP BY name
ORDER BY place, name
