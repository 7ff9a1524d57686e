-- meetings_changed: the meetings that carry a difference from golden, and from and to which ranks.
-- grain: one meeting of the target run with an input or output that differs beyond float noise
-- parameters: the tables compared_transfers and leaf_errors
-- effect: arises (all inputs are equal, a result is not), spreads (it reaches ranks whose inputs are equal), passes (it
--   stays with the ranks that put it in), fades (it goes in, all results are equal or not recorded). An asynchronous
--   result, or an overwritten record, leaves it unclear.
-- put_in, taken: ranks whose tensors differ. Where no input does beyond noise, noise that is at least a tenth of what
--   comes out went in. The errors are those of leaf_errors.
WITH
    moved AS (
        SELECT
            step,
            rank,
            seq,
            meeting,
            kind,
            overwritten,
            asynchronous,
            unnest(list_concat(
                [{'row': row, 'is_given': true} FOR row IN coalesce(given, [])],
                [{'row': row, 'is_given': false} FOR row IN coalesce(taken, [])]
            ), recursive := true)
        FROM compared_transfers
        WHERE meeting IS NOT NULL
    ),
    changed AS (
        SELECT
            moved.step,
            meeting,
            if(kind = 'recv', 'send', kind) AS kind,
            moved.rank,
            seq,
            is_given,
            error,
            difference = 'noise' AS is_noise,
            max(error) FILTER (WHERE NOT is_given AND difference = 'different') OVER together AS most_taken,
            bool_or(is_given AND difference = 'different') OVER together AS is_put_in,
            overwritten,
            asynchronous AND NOT is_given AS early
        FROM moved
        -- a row of the target has the same number in the comparison
        JOIN leaf_errors
            ON leaf_errors.step = moved.step
            AND leaf_errors.rank = moved.rank
            AND leaf_errors.row = moved.row
            AND leaf_errors.target_seq = moved.seq
        WHERE leaf_errors.difference = 'different' OR (is_given AND leaf_errors.difference = 'noise')
        WINDOW together AS (PARTITION BY moved.step, meeting)
    ),
    -- a result that was recorded too early may be equal only because it had not arrived in either run
    recorded AS (
        SELECT
            step,
            meeting,
            bool_or(overwritten AND NOT is_given) AS is_overwritten,
            bool_or(asynchronous AND NOT is_given) AS is_early
        FROM moved
        GROUP BY ALL
    ),
    carried AS (
        FROM changed
        WHERE NOT is_noise OR (NOT is_put_in AND error >= most_taken / 10)
    ),
    meetings AS (
        SELECT
            step,
            meeting,
            any_value(kind) AS kind,
            min(seq) AS seq,
            coalesce(list(DISTINCT rank ORDER BY rank) FILTER (WHERE is_given), []) AS put_in,
            coalesce(list(DISTINCT rank ORDER BY rank) FILTER (WHERE NOT is_given), []) AS taken,
            max(error) FILTER (WHERE is_given) AS error_put_in,
            max(error) FILTER (WHERE NOT is_given) AS error_taken,
            bool_or(overwritten) AS overwritten,
            bool_or(early) AS early
        FROM carried
        GROUP BY step, meeting
    )
SELECT
    step,
    meeting,
    kind,
    CASE
        WHEN overwritten OR (len(put_in) > 0 AND len(taken) = 0 AND is_overwritten)
            THEN 'unclear: a nested call overwrote its record'
        WHEN early OR (len(put_in) > 0 AND len(taken) = 0 AND is_early)
            THEN 'unclear: asynchronous, it may not have been there yet when it was recorded'
        WHEN len(put_in) = 0 THEN 'arises'
        WHEN len(taken) = 0 THEN 'fades'
        WHEN len(list_filter(taken, lambda rank: NOT list_contains(put_in, rank))) > 0 THEN 'spreads'
        ELSE 'passes'
    END AS effect,
    put_in,
    taken,
    error_put_in,
    error_taken
FROM meetings
JOIN recorded USING (step, meeting)
ORDER BY step, seq, meeting
