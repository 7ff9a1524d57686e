-- numbers: where the rows of each rank stand among those that a sheet shows.
-- grain: one row of one rank
-- parameters: the tables merge_places and merge_shown
SELECT
    rank,
    place,
    number
FROM merge_places
JOIN merge_shown USING (name)
