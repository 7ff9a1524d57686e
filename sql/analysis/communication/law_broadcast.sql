-- law_broadcast: broadcast: every member receives what the root puts in. The root is the one that most members name.
-- grain: one tensor that the root puts in
-- parameters: after contributors
-- Statistics see any change of largest, smallest, mean or norm.
SELECT
    step,
    meeting,
    'broadcast' AS law,
    0 AS part,
    0 AS layer,
    0 AS place,
    rank,
    if(problem IS NULL, given[1], NULL) AS row,
    NULL AS first,
    NULL AS elements,
    NULL AS reduction,
    problem
FROM contributors
WHERE kind = 'broadcast' AND rank = root
