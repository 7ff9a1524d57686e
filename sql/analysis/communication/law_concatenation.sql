-- law_concatenation: all_gather and gather: the result is what the members put in, in the group's order.
-- grain: one tensor that a member puts in; part -1 is the whole result, part i the i-th tensor of a list
-- parameters: after contributors
-- Statistics show a wrong tensor in a list, because each of its tensors is recorded. For a result that is one tensor
-- they show lost or altered elements, but not their order: two swapped shards leave all statistics unchanged.
SELECT
    step,
    meeting,
    'concatenation' AS law,
    unnest([-1, place]) AS part,
    0 AS layer,
    place,
    rank,
    if(problem IS NULL, given[1], NULL) AS row,
    NULL AS first,
    NULL AS elements,
    NULL AS reduction,
    problem
FROM contributors
WHERE kind IN ('all_gather', 'gather')
