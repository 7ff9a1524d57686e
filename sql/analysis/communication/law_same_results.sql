-- law_same_results: all_reduce and all_gather: all members have the same result.
-- grain: one meeting: the result that the others are held against, which most members have (of the lowest such rank)
-- parameters: after shares and tensors_moved
-- tied: no result has most members behind it, so that the rank at fault cannot be told from this law.
-- Statistics see any change of largest, smallest, mean or norm; digests see any change at all.
WITH
    results AS (
        SELECT
            shares.step,
            meeting,
            shares.rank,
            taken[1] AS row,
            coalesce(content, digest, CAST((high, low, mean, norm) AS VARCHAR)) AS result
        FROM shares
        JOIN tensors_moved
            ON tensors_moved.step = shares.step
            AND tensors_moved.rank = shares.rank
            AND tensors_moved.row = taken[1]
        WHERE kind IN ('all_reduce', 'all_gather') AND len(taken) = 1 AND NOT overwritten AND NOT asynchronous
    ),
    votes AS (
        SELECT
            step,
            meeting,
            result,
            count(*) AS votes,
            min(rank) AS rank,
            arg_min(row, rank) AS row
        FROM results
        GROUP BY ALL
    )
SELECT
    step,
    meeting,
    'same results' AS law,
    0 AS part,
    0 AS layer,
    0 AS place,
    arg_max(rank, (votes, -rank)) AS rank,
    arg_max(row, (votes, -rank)) AS row,
    NULL AS first,
    NULL AS elements,
    NULL AS reduction,
    NULL AS problem,
    2 * max(votes) <= sum(votes) AS tied
FROM votes
GROUP BY ALL
