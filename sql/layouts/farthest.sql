-- farthest: of each leaf whose copies differ, the coordinates of the copy that is farthest from golden.
-- grain: one leaf
-- parameters: after placed_members, decided, golden_leaves
-- copy: a copy's coordinates along the axes whose copies differ, 0 along the others
-- stands_out: it is ten times as far as the nearest one
WITH
    copies AS (
        SELECT
            leaf,
            along(places, ways, 'differ') AS copy,
            max(max) AS max,
            min(min) AS min,
            avg(mean ORDER BY rank, micro) AS mean,
            sqrt(sum(pow(norm, 2) ORDER BY rank, micro) / sum(elements)) AS root_mean_square
        FROM placed_members
        JOIN decided
            USING (leaf)
        WHERE list_contains(ways, 'differ')
        GROUP BY leaf, copy
    ),
    measured AS (
        SELECT
            leaf,
            copies.copy,
            coalesce(
                abs(copies.max - golden.max) + abs(copies.min - golden.min) + abs(copies.mean - golden.mean)
                + abs(
                    copies.root_mean_square
                    - golden.norm / sqrt(list_product(list_transform(golden.shape, lambda extent: CAST(extent AS DOUBLE))))
                ),
                0
            ) AS distance
        FROM copies
        LEFT JOIN golden_leaves AS golden
            USING (leaf)
    )
SELECT DISTINCT ON (leaf)
    leaf,
    copy,
    distance > 10 * min(distance) OVER (PARTITION BY leaf) AS stands_out
FROM measured
ORDER BY leaf, distance DESC, copy
