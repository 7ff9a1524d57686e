-- law_shards: reduce_scatter: member i takes the i-th shard of the sum (or maximum, …) of what all members put in.
-- grain: one tensor, or even piece of one, that a member puts in for one taker; part is the taker's place in the group
-- parameters: after contributors and tensors_moved
-- Statistics of a whole input do not describe its pieces. Then the law is checked for all shards together, which shows
-- neither the rank at fault nor swapped shards. If the input is a list, each shard is checked.
WITH
    pieces AS (
        SELECT
            contributors.*,
            unnest(range(size)) AS part
        FROM contributors
        WHERE kind = 'reduce_scatter'
    )
SELECT
    pieces.step,
    meeting,
    'shards' AS law,
    part,
    place AS layer,
    0 AS place,
    pieces.rank,
    if(problem IS NULL, if(len(given) = 1, given[1], given[part + 1]), NULL) AS row,
    if(len(given) = 1 AND size > 1, part * (tensors_moved.elements // size), NULL) AS first,
    if(len(given) = 1 AND size > 1, tensors_moved.elements // size, NULL) AS elements,
    reduction,
    problem
FROM pieces
LEFT JOIN tensors_moved
    ON tensors_moved.step = pieces.step AND tensors_moved.rank = pieces.rank AND tensors_moved.row = pieces.given[1]
