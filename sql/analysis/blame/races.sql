-- races: events in which only digests differ, of values that an op changes in place then or later.
-- grain: one event
-- parameters: $comparison, $target; the views ops, tensors and results, the tables blame_events and blame_leaves
-- msprobe computes a digest in a thread, some time after the op. So the digest of a tensor that is changed in place may
-- be that of before or after, while the statistics, which are computed at once, agree to the last bit. An op
-- changes a tensor in place if its name says so (mul_, __iadd__), and a collective writes into its argument.
WITH
    near AS (
        SELECT
            events.step,
            events.rank,
            events.place,
            events.target_seq,
            target_shape AS shape,
            target_max AS max,
            target_min AS min
        FROM blame_events AS events
        JOIN blame_leaves AS leaves USING (step, rank, target_seq)
        JOIN results USING (step, rank, row)
        WHERE comparison = $comparison AND only_digests AND side = 'pair' AND only_digest
    ),
    -- first, because mostly there are none, and then no tensor has to be read
    changing AS MATERIALIZED (
        SELECT step, rank, seq
        FROM ops
        SEMI JOIN near USING (step, rank)
        WHERE
            run = $target
            AND direction = 'forward'
            AND kind = 'api'
            AND (
                is_in_place(api)
                OR api_type IN ('Distributed', 'MintDistributed')
            )
    ),
    changers AS (
        SELECT step, rank, seq, shape, max, min
        FROM tensors
        JOIN changing USING (step, rank, seq)
        WHERE run = $target AND role = 'input' AND kind = 'tensor'
    )
SELECT DISTINCT near.step, near.rank, near.place
FROM near
JOIN changers
    ON changers.step = near.step
    AND changers.rank = near.rank
    AND changers.shape = near.shape
    AND changers.max = near.max
    AND changers.min = near.min
    AND changers.seq >= near.target_seq
