-- law_scatter: scatter: member i receives the i-th tensor, or even piece, of what the root puts in.
-- grain: one tensor, or piece of one, that the root puts in; part is the taker's place in the group
-- parameters: after contributors and tensors_moved
-- Statistics show each tensor of a list; if one tensor is cut, they show all pieces together, and no swap.
WITH
    pieces AS (
        SELECT
            contributors.*,
            unnest(range(size)) AS part
        FROM contributors
        WHERE kind = 'scatter' AND rank = root
    )
SELECT
    pieces.step,
    meeting,
    'scatter' AS law,
    part,
    0 AS layer,
    0 AS place,
    pieces.rank,
    if(problem IS NULL, if(len(given) = 1, given[1], given[part + 1]), NULL) AS row,
    if(len(given) = 1 AND size > 1, part * (tensors_moved.elements // size), NULL) AS first,
    if(len(given) = 1 AND size > 1, tensors_moved.elements // size, NULL) AS elements,
    NULL AS reduction,
    problem
FROM pieces
LEFT JOIN tensors_moved
    ON tensors_moved.step = pieces.step AND tensors_moved.rank = pieces.rank AND tensors_moved.row = pieces.given[1]
