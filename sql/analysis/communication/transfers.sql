-- transfers: every collective and point-to-point call of a run with its group, its partners and its tensors.
-- grain: one transfer of one rank: a collective call, one send or receive, or one P2POp of a batch
-- All members of a group call its collectives in one order, so the n-th call of a kind on each is one meeting;
-- the root is ignored, so that calls with a wrong root still meet. Sends meet receives per sender, receiver and tag.
-- asynchronous: its results were recorded when it returned, perhaps before they had arrived; is_waited_for: they were
--   recorded when they had
-- partners: the number of other ranks that meet there; transfers_in_order lists them
-- parameters: the tables transfer_ways and transfer_places
WITH
    -- number: short for the place
    numbered AS (
        SELECT
            *,
            row_number() OVER () AS pattern,
            -- a call without a known place meets no other rank's
            dense_rank() OVER (ORDER BY step, place, if(place IS NULL, rank, NULL)) AS number
        FROM transfer_places
    ),
    -- a window sorts every column that it passes on: of what a call has in common with others its pattern alone
    turns AS (
        SELECT
            sampled.seq,
            sampled.op,
            shift,
            pattern,
            CAST(
                row_number() OVER (
                    PARTITION BY numbered.step, numbered.rank, kind, number
                    ORDER BY sampled.seq, coalesce(given[1], taken[1]) + shift, slot
                ) AS INTEGER
            ) - 1 AS turn
        FROM transfer_ways AS sampled
        JOIN numbered
            ON numbered.step = sampled.step AND numbered.rank = sampled.rank AND numbered.seq = sampled.sample
    ),
    in_turn AS (
        SELECT
            numbered.* EXCLUDE (seq, op, given, taken),
            turns.seq,
            turns.op,
            turn,
            list_transform(given, lambda row: row + shift) AS given,
            list_transform(taken, lambda row: row + shift) AS taken
        FROM turns
        JOIN numbered USING (pattern)
    ),
    meetings AS (
        SELECT
            number,
            turn,
            list_sort(list_distinct(list(rank))) AS present,
            if(
                len(present) = len(any_value(expected)),
                [],
                list_filter(any_value(expected), lambda member: NOT list_contains(present, member))
            ) AS absent
        FROM in_turn
        GROUP BY ALL
    )
SELECT
    step,
    rank,
    seq,
    op,
    slot,
    kind,
    reduction,
    group_id,
    members,
    peer,
    turn,
    place || ' #' || turn AS meeting,
    given,
    taken,
    overwritten,
    len(present) - 1 AS partners,
    absent,
    asynchronous,
    is_waited_for,
    splits
FROM in_turn
JOIN meetings USING (number, turn)
