-- picked_members: of copies one, of shards and parts of a sum all.
-- grain: one leaf of one rank
-- parameters: after placed_members, picks
SELECT members.*
FROM placed_members AS members
JOIN decided
    USING (leaf)
LEFT JOIN picks
    USING (leaf)
WHERE coalesce(list_bool_and(list_transform(list_zip(picked, places), lambda axis: axis[1] IS NULL OR axis[1] = axis[2])), true)
