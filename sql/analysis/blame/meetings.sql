-- meetings: what a transfer brings to a rank: the error of the tensors that the ranks of its meeting put in.
-- grain: one transfer of one rank that receives something, or whose record was overwritten
-- parameters: the tables compared_transfers, blame_leaves, blame_ops, blame_noise and noise_ends
-- own_error, brought_error: the largest error of what this rank puts in, and of what the others put in; 0 if all agree.
--   Where ops round differently, noise counts only if the transfer stands out of rounding here and the others put in a
--   hundredth or more of its error: a sum can cancel, and statistics show few elements
-- from_rank: the other rank with the largest error; NULL if all agree
-- is_absent: a member of the group is not in the lake, so what it put in is unknown
WITH
    wanted AS (
        SELECT
            step,
            rank,
            seq,
            slot,
            meeting,
            given,
            taken,
            overwritten,
            asynchronous,
            len(absent) > 0 AS is_absent
        FROM compared_transfers
    ),
    given_rows AS (
        SELECT step, rank, meeting, unnest(given) AS row FROM wanted
    ),
    given_errors AS (
        SELECT
            step,
            meeting,
            rank,
            max(if(difference = 'noise' AND noise_ends.place IS NOT NULL, 0, error)) AS error,
            max(error) AS error_with_noise
        FROM given_rows
        JOIN blame_leaves USING (step, rank, row)
        LEFT JOIN noise_ends USING (step, rank)
        GROUP BY ALL
    ),
    -- the two largest are enough to know the largest of the others, without every taker beside every giver
    largest AS (
        SELECT
            step,
            meeting,
            arg_max({'rank': rank, 'error': error}, (error, -rank), 2) AS two,
            arg_max({'rank': rank, 'error': error_with_noise}, (error_with_noise, -rank), 2) AS two_with_noise
        FROM given_errors
        WHERE error IS NOT NULL
        GROUP BY ALL
    ),
    standing_out AS (
        SELECT step, rank, target_seq AS seq, output_error
        FROM blame_ops
        SEMI JOIN (FROM blame_noise WHERE evidence IN ('zeros', 'added', 'shift')) AS made USING (step, rank, target_seq)
    ),
    brought AS (
        SELECT
            wanted.*,
            if(two[1].rank = wanted.rank, two[2], two[1]) AS most,
            if(two_with_noise[1].rank = wanted.rank, two_with_noise[2], two_with_noise[1]) AS most_with_noise,
            most_with_noise['error'] >= getvariable('carried_share') * output_error AS is_explained
        FROM wanted
        LEFT JOIN largest USING (step, meeting)
        LEFT JOIN standing_out USING (step, rank, seq)
        WHERE taken IS NOT NULL OR overwritten
    )
SELECT DISTINCT
    brought.step,
    brought.rank,
    brought.seq,
    brought.meeting,
    brought.overwritten,
    brought.asynchronous,
    brought.is_absent,
    coalesce(own.error, 0) AS own_error,
    coalesce(if(is_explained, most_with_noise, most)['error'], 0) AS brought_error,
    if(brought_error > 0, if(is_explained, most_with_noise, most)['rank'], NULL) AS from_rank
FROM brought
LEFT JOIN given_errors AS own
    ON own.step = brought.step
    AND own.meeting = brought.meeting
    AND own.rank = brought.rank
