-- column: one rank's column of a sheet, in the order of names.sql. A pivot of all ranks takes four times as long.
-- grain: one row name; NULL if the rank lacks the row
-- parameters: $rank, $most (the last number; NULL: all); the tables merge_names and merge_cells
SELECT text
FROM merge_names
LEFT JOIN (FROM merge_cells WHERE rank = $rank) AS cells USING (number)
WHERE $most IS NULL OR number <= $most
ORDER BY number
