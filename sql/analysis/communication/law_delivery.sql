-- law_delivery: send and receive, including a P2POp of a batch: the receiver gets what the sender put in.
-- grain: one tensor that is sent
-- parameters: after contributors
-- Statistics see any change of largest, smallest, mean or norm.
SELECT
    step,
    meeting,
    'delivery' AS law,
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
WHERE kind = 'send'
