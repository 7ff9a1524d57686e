-- alone_members: what the ranks have of the leaves of ops that golden alone has: what they have beside them, or nothing.
-- grain: one leaf of one rank
-- parameters: after members, alone_leaves, beside
-- Contents are taken along where the shape is the same. Of what no rank has, a row of the first rank stands for all.
SELECT
    members.* REPLACE (
        beside.leaf AS leaf,
        if(beside.same_shape, members.content, NULL) AS content
    )
FROM cut_members AS members
JOIN beside
    ON beside.source = members.leaf
UNION ALL
SELECT members.* REPLACE (
    alone_leaves.leaf AS leaf,
    alone_leaves.shape AS shape,
    CAST(NULL AS DOUBLE) AS max,
    CAST(NULL AS DOUBLE) AS min,
    CAST(NULL AS DOUBLE) AS mean,
    CAST(NULL AS DOUBLE) AS norm,
    CAST(NULL AS VARCHAR) AS content
)
FROM alone_leaves
CROSS JOIN (
    SELECT * FROM cut_members ORDER BY rank, micro, row LIMIT 1
) AS members
ANTI JOIN beside
    ON beside.leaf = alone_leaves.leaf
