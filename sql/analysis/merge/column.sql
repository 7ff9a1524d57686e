-- column: one rank's column of a sheet, in the order of names.sql. A pivot of all ranks takes four times as long.
-- grain: one row name; NULL if the rank lacks the row
-- parameters: $rank; the tables merge_shown and merge_cells
SELECT text
FROM merge_shown
LEFT JOIN (FROM merge_cells WHERE rank = $rank) AS cells USING (number)
ORDER BY number
