-- transfer_places: the transfers of the sampled calls, each with its group and the place where its ranks meet.
-- grain: one transfer of one call
-- Only a rank that considers itself the root gives to a broadcast or scatter, or receives from a gather or reduce.
-- parameters: $run; the tables transfer_single, transfer_batched and transfer_groups
WITH
    known_groups AS (
        SELECT group_id, min(members) AS members
        FROM transfer_groups
        WHERE members IS NOT NULL
        GROUP BY ALL
    ),
    -- the dump may lack ranks, but groups name them
    world AS (
        SELECT CAST(range(max(rank) + 1) AS INTEGER[]) AS members
        FROM (
            SELECT max(rank) AS rank
            FROM dumps
            WHERE run = $run
            UNION ALL
            SELECT max(list_max(members))
            FROM known_groups
        )
    ),
    every AS (
        SELECT
            step,
            rank,
            seq,
            op,
            slot,
            kind,
            if(kind IN ('all_reduce', 'reduce', 'reduce_scatter'), coalesce(nullif(named_reduction, ''), 'sum'), NULL)
                AS reduction,
            group_id,
            coalesce(
                members,
                TRY_CAST(listed AS INTEGER[]),
                TRY_CAST(group_id AS INTEGER[]),
                list_filter(
                    [TRY_CAST(string_split(nullif(regexp_extract(group_id, '\d+(-\d+)+$'), ''), '-') AS INTEGER[])],
                    -- else it is the size of a group and a hash
                    lambda ranks: list_contains(ranks, rank) AND list_count(ranks) = len(ranks)
                )[1]
            ) AS members,
            peer,
            group_peer,
            if(kind IN ('send', 'recv'), tag, NULL) AS tag,
            given,
            taken,
            splits,
            overwritten,
            asynchronous,
            is_waited_for
        FROM transfer_single
        UNION ALL
        SELECT
            step,
            rank,
            seq,
            op,
            slot,
            kind,
            NULL,
            group_id,
            NULL,
            peer,
            NULL,
            tag,
            if(kind = 'send', [row], NULL),
            if(kind = 'recv', [output], NULL),
            NULL,
            false,
            NOT is_waited_for,
            is_waited_for
        FROM transfer_batched
    ),
    -- MindSpore names groups by a hash of their ranks; those that are not in the lake stay unknown
    named_groups AS (
        SELECT step, group_id, list_sort(list(DISTINCT rank)) AS members
        FROM every
        WHERE members IS NULL AND group_id NOT ILIKE '%world%'
        GROUP BY ALL
    ),
    grouped AS (
        SELECT
            every.* REPLACE (
                coalesce(every.members, known_groups.members, named_groups.members, world.members) AS members
            )
        FROM every
        CROSS JOIN world
        LEFT JOIN known_groups USING (group_id)
        LEFT JOIN named_groups USING (step, group_id)
    ),
    placed AS (
        SELECT
            * EXCLUDE (peer, group_peer),
            CASE
                WHEN peer IS NOT NULL THEN peer
                WHEN group_peer IS NOT NULL
                THEN members[group_peer + 1]
                WHEN kind IN ('broadcast', 'reduce', 'gather', 'scatter') THEN 0
            END AS peer
        FROM grouped
    )
SELECT
    * REPLACE (
        if(kind IN ('broadcast', 'scatter') AND rank <> peer, NULL, given) AS given,
        if(kind IN ('reduce', 'gather') AND rank <> peer, NULL, taken) AS taken
    ),
    CASE kind
        WHEN 'send' THEN 'send ' || rank || ' → ' || peer
        WHEN 'recv' THEN 'send ' || peer || ' → ' || rank
        ELSE kind || ' ' || group_text(members)
    END || if(coalesce(tag, 0) <> 0, ' tag ' || tag, '') AS place,
    CASE kind WHEN 'send' THEN [rank, peer] WHEN 'recv' THEN [peer, rank] ELSE members END AS expected
FROM placed
