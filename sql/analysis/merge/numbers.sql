-- numbers: where the rows of each rank stand in a sheet.
-- grain: one row of one rank
-- parameters: $most (the last number; NULL: all); the tables merge_places and merge_names
SELECT
    rank,
    place,
    number
FROM merge_places
JOIN merge_names USING (name)
WHERE $most IS NULL OR number <= $most
