-- names: the rows of a sheet, numbered in the order of the run; where another rank lacks ops before a row, the farther
-- place decides.
-- grain: one row name
-- parameters: the table merge_places
SELECT
    name,
    row_number() OVER (ORDER BY min(place), max(place), name) AS number
FROM merge_places
GROUP BY name
