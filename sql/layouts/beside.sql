-- beside: for each tensor of an op that golden alone has, the leaf of the whole that is the same value in golden.
-- grain: one leaf of golden, if there is such a one
-- parameters: $golden, $golden_step, $golden_rank, $known (leaves whose placement is known); after alone_leaves
-- What an op is given was made or taken before it, what it gives is taken after it: the nearest one is taken.
-- A view may have another shape; its elements are the same.
WITH
    theirs AS (
        SELECT *, coalesce(list_product(list_transform(shape, lambda extent: CAST(extent AS DOUBLE))), 1) AS elements
        FROM tensors
        WHERE run = $golden AND step = $golden_step AND rank = $golden_rank AND kind = 'tensor' AND max IS NOT NULL
    )
SELECT DISTINCT ON (alone_leaves.leaf)
    alone_leaves.leaf,
    cut_leaves.leaf AS source,
    other.shape = own.shape AND coalesce(other.content = own.content, true) AS same_shape
FROM alone_leaves
JOIN theirs AS own
    ON own.row = alone_leaves.row
JOIN theirs AS other
    ON other.max = own.max
    AND other.min = own.min
    AND other.dtype = own.dtype
    AND other.elements = own.elements
    AND abs(other.mean - own.mean) <= 1e-6 * greatest(abs(own.max), abs(own.min))
    AND (own.norm IS NULL OR abs(other.norm - own.norm) <= 1e-6 * own.norm)
JOIN cut_leaves
    ON cut_leaves.whole_op = other.op AND cut_leaves.slot = other.slot AND cut_leaves.repeat = other.repeat
WHERE
    list_contains($known, cut_leaves.leaf)
    AND if(own.role = 'input', other.row < own.row, other.row > own.row)
ORDER BY alone_leaves.leaf, same_shape DESC, abs(other.row - own.row), cut_leaves.leaf
