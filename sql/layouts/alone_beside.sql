-- alone_beside: the leaves of ops that golden alone has, with the leaf that is the same in golden, if there is one.
-- grain: one leaf
-- parameters: after alone_leaves, beside
SELECT
    leaf,
    alone_leaves.op,
    alone_leaves.slot,
    alone_leaves.repeat,
    alone_leaves.role,
    alone_leaves.kind,
    alone_leaves.shape,
    beside.source,
    beside.same_shape
FROM alone_leaves
LEFT JOIN beside
    USING (leaf)
ORDER BY leaf
