-- farthest: of each leaf whose copies differ, the coordinates of the copy that is farthest from golden.
-- grain: one leaf
-- parameters: after placed_members, decided, golden_leaves
-- copy: a copy's coordinates along the axes whose copies differ, 0 along the others
-- distance: by the statistics that both record; NaN, which is larger than any number, where only one of them is NaN
-- stands_out: it is ten times as far as the nearest one
WITH
    copies AS (
        SELECT
            leaf,
            along(places, ways, 'differ') AS copy,
            max(max) AS max,
            if(bool_or(isnan(min)), 'nan'::DOUBLE, min(min)) AS min,
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
            coalesce(abs(difference_of(copies.max, golden.max)), 0)
            + coalesce(abs(difference_of(copies.min, golden.min)), 0)
            + coalesce(abs(difference_of(copies.mean, golden.mean)), 0)
            + coalesce(abs(difference_of(copies.root_mean_square, golden.norm / root_elements_of(golden.shape))), 0) AS distance
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
