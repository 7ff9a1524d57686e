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
    )
SELECT
    wanted.step,
    wanted.rank,
    wanted.seq,
    wanted.meeting,
    wanted.overwritten,
    wanted.asynchronous,
    wanted.is_absent,
    coalesce(max(error) FILTER (WHERE given_errors.rank = wanted.rank), 0) AS own_error,
    coalesce(max(error) FILTER (WHERE given_errors.rank <> wanted.rank), 0) AS brought_error,
    arg_max(given_errors.rank, error) FILTER (WHERE given_errors.rank <> wanted.rank) AS from_rank
FROM wanted
LEFT JOIN given_errors
    ON given_errors.step = wanted.step
    AND given_errors.meeting = wanted.meeting
WHERE taken IS NOT NULL OR overwritten
GROUP BY ALL
