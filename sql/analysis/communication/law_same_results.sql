-- law_same_results: all_reduce and all_gather: all members have the same result.
-- grain: one meeting: the result that most members have (of the lowest such rank), with which the others are compared
-- parameters: after shares and tensors_moved
-- tied: several results have equally many members, so this law does not show which rank is at fault.
-- Statistics show any change of largest, smallest, mean or norm; digests show any change at all.
WITH
    results AS (
        SELECT
            shares.step,
            meeting,
            shares.rank,
            taken[1] AS row,
            coalesce(content, digest) AS known,
            if(known IS NULL, high, NULL) AS high,
            if(known IS NULL, low, NULL) AS low,
            if(known IS NULL, mean, NULL) AS mean,
            if(known IS NULL, norm, NULL) AS norm
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
            known,
            high,
            low,
            mean,
            norm,
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
