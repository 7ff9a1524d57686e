-- law_reduction: all_reduce and reduce: the result is the sum (or maximum, …) of what all members put in.
-- grain: one tensor that a member puts in
-- parameters: after contributors
-- Statistics see it through what a sum keeps: the mean, and bounds for largest, smallest and norm. They do not see an
-- exchange of elements, nor a change that leaves the mean and the bounds. Of a maximum they see the largest element.
SELECT
    step,
    meeting,
    'reduction' AS law,
    0 AS part,
    place AS layer,
    0 AS place,
    rank,
    unnest(if(problem IS NULL, given, [NULL])) AS row,
    NULL AS first,
    NULL AS elements,
    reduction,
    problem
FROM contributors
WHERE kind IN ('all_reduce', 'reduce')
