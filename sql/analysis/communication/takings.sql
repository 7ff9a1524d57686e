-- takings: every result that a law is about.
-- grain: one result of one rank: a tensor, or the tensors that an all_to_all receives together
-- parameters: after shares and law_same_results
-- part: which part of its meeting the result should be (see the laws)
WITH
    takers AS (
        SELECT
            *,
            CASE
                WHEN overwritten THEN 'its record was overwritten by a nested call'
                WHEN taken IS NULL THEN 'its result was not recorded'
            END AS problem
        FROM shares
        WHERE
            takes_in(kind, rank, peer)
            AND op NOT LIKE '%\_object%' ESCAPE '\'
    ),
    items AS (
        SELECT
            *,
            'concatenation' AS law,
            if(coalesce(len(taken), 1) = 1, [-1], range(len(taken))) AS parts,
            if(coalesce(len(taken), 1) = 1, [taken], [[row] FOR row IN taken]) AS results
        FROM takers
        WHERE kind IN ('all_gather', 'gather')
    )
SELECT
    step,
    meeting,
    law,
    unnest(parts) AS part,
    rank,
    seq,
    op,
    slot,
    kind,
    unnest(results) AS rows,
    asynchronous,
    problem
FROM items
UNION ALL BY NAME
SELECT
    step,
    meeting,
    CASE kind
        WHEN 'broadcast' THEN 'broadcast'
        WHEN 'scatter' THEN 'scatter'
        WHEN 'reduce_scatter' THEN 'shards'
        WHEN 'all_to_all' THEN 'exchange'
        WHEN 'recv' THEN 'delivery'
        ELSE 'reduction'
    END AS law,
    if(kind IN ('scatter', 'reduce_scatter', 'all_to_all'), list_position(members, rank) - 1, 0) AS part,
    rank,
    seq,
    op,
    slot,
    kind,
    taken AS rows,
    asynchronous,
    problem
FROM takers
WHERE kind NOT IN ('all_gather', 'gather')
UNION ALL BY NAME
SELECT
    step,
    meeting,
    'same results' AS law,
    0 AS part,
    takers.rank,
    seq,
    op,
    slot,
    kind,
    taken AS rows,
    asynchronous,
    problem
FROM takers
SEMI JOIN law_same_results USING (step, meeting)
WHERE len(taken) = 1
