-- law_reduction: all_reduce and reduce: the result is the sum (or maximum, …) of what all members put in.
-- grain: one tensor that a member puts in
-- parameters: after contributors
-- Statistics show the mean of a sum, and bounds for its largest, smallest and norm. They do not show swapped
-- elements, nor a change within the mean and the bounds. For a maximum they show the largest element.
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
