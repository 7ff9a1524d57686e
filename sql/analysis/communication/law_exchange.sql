-- law_exchange: all_to_all: member i receives the i-th piece of what each member puts in, in the group's order.
-- grain: one tensor, or piece of one, that a member puts in for one taker; part is the taker's place in the group
-- parameters: after contributors and tensors_moved
-- Pieces are even, or as long along the first axis as the split sizes say. Statistics show the tensors of lists; if one
-- tensor is cut, they show what all members receive together, and not which piece went where.
WITH
    pieces AS (
        SELECT
            contributors.*,
            unnest(range(size)) AS part
        FROM contributors
        WHERE kind = 'all_to_all'
    ),
    cut AS (
        SELECT
            pieces.*,
            len(given) = size AND size > 1 AS is_list,
            if(splits IS NULL, tensors_moved.elements // size, splits[part + 1] * row_elements) AS length,
            if(
                splits IS NULL,
                part * (tensors_moved.elements // size),
                coalesce(list_sum(splits[:part]), 0) * row_elements
            ) AS start
        FROM pieces
        LEFT JOIN tensors_moved
            ON tensors_moved.step = pieces.step
            AND tensors_moved.rank = pieces.rank
            AND tensors_moved.row = pieces.given[1]
    )
SELECT
    step,
    meeting,
    'exchange' AS law,
    part,
    0 AS layer,
    place,
    rank,
    if(problem IS NULL, if(is_list, given[part + 1], given[1]), NULL) AS row,
    if(is_list OR size = 1, NULL, start) AS first,
    if(is_list OR size = 1, NULL, length) AS elements,
    NULL AS reduction,
    problem
FROM cut
