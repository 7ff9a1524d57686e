-- carriers: the ranks that carry what is wrong with a leaf, as far as the ranks' own numbers show.
-- grain: one leaf
-- parameters: after placed_members, decided, farthest
-- Of copies that differ, those that are as the farthest from golden; of shards, those that an earlier rank has as well.
WITH
    different AS (
        SELECT leaf, rank
        FROM placed_members
        JOIN decided
            USING (leaf)
        JOIN farthest
            USING (leaf)
        WHERE
            stands_out
            AND along(places, ways, 'differ') = copy
    ),
    shards AS (
        SELECT
            leaf,
            rank,
            along(places, ways, 'shard') AS shard,
            min(shard) OVER (PARTITION BY leaf, sig) AS first_shard
        FROM placed_members
        JOIN decided
            USING (leaf)
        WHERE decided.repeats
    )
SELECT leaf, list(DISTINCT rank ORDER BY rank) AS ranks
FROM (
    FROM different
    UNION ALL
    SELECT leaf, rank FROM shards WHERE shard <> first_shard
)
GROUP BY leaf
