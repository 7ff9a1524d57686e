-- names: the rows of a sheet, in the order of the run; where another rank lacks ops before a row, the farther place
-- decides.
-- grain: one row name
-- parameters: the table merge_cells
SELECT name, [min(place), max(place)] AS place
FROM merge_cells
GROUP BY name
ORDER BY place, name
