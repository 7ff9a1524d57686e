-- picks: where the copy stands that a leaf of the whole is made of, along each axis that has copies.
-- grain: one leaf
-- parameters: after leaf_axes, decided, farthest
-- picked: by axis, the coordinate; NULL where all members count, since they are shards or parts of a sum
SELECT
    leaf,
    list(
        CASE decided.ways[axis]
            WHEN 'last' THEN last_place
            WHEN 'copy' THEN first_place
            WHEN 'differ' THEN farthest.copy[axis]
        END
        ORDER BY axis
    ) AS picked
FROM leaf_axes
JOIN decided
    USING (leaf)
LEFT JOIN farthest
    USING (leaf)
GROUP BY leaf
