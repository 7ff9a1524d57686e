-- meetings: what a transfer brings to a rank: the error of the tensors that the ranks of its meeting put in.
-- grain: one transfer of one rank that receives something, or whose record was overwritten
-- parameters: the tables transfers, blame_leaves and noise_ends
-- own_error, brought_error: the largest error of what this rank puts in, and of what the others put in; 0 if all agree,
--   and for noise where ops round differently
-- from_rank: the other rank with the largest error; NULL if all agree
-- is_absent: a member of the group is not in the lake, so what it put in is unknown
WITH
    wanted AS (
        SELECT step, rank, seq, slot, meeting, given, taken, overwritten, asynchronous, len(absent) > 0 AS is_absent
        FROM transfers
    ),
    given_rows AS (
        SELECT step, rank, meeting, unnest(given) AS row FROM wanted
    ),
    given_errors AS (
        SELECT step, meeting, rank, max(if(difference = 'noise' AND noise_ends.place IS NOT NULL, 0, error)) AS error
        FROM given_rows
        JOIN blame_leaves USING (step, rank, row)
        LEFT JOIN noise_ends USING (step, rank)
        GROUP BY ALL
    ),
    -- the two largest are enough to know the largest of the others, without every taker beside every giver
    largest AS (
        SELECT step, meeting, arg_max({'rank': rank, 'error': error}, (error, -rank), 2) AS two
        FROM given_errors
        WHERE error IS NOT NULL
        GROUP BY ALL
    )
SELECT DISTINCT
    wanted.step,
    wanted.rank,
    wanted.seq,
    wanted.meeting,
    wanted.overwritten,
    wanted.asynchronous,
    wanted.is_absent,
    coalesce(own.error, 0) AS own_error,
    coalesce(if(two[1].rank = wanted.rank, two[2], two[1]).error, 0) AS brought_error,
    if(two[1].rank = wanted.rank, two[2], two[1]).rank AS from_rank
FROM wanted
LEFT JOIN given_errors AS own
    ON own.step = wanted.step
    AND own.meeting = wanted.meeting
    AND own.rank = wanted.rank
LEFT JOIN largest
    ON largest.step = wanted.step
    AND largest.meeting = wanted.meeting
WHERE taken IS NOT NULL OR overwritten
