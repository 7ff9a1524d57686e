-- transfer_places: the transfers of the sampled calls, each with its group and the place where its ranks meet.
-- grain: one transfer of one call
-- Only a rank that considers itself the root gives to a broadcast or scatter, or receives from a gather or reduce.
-- parameters: $run; the tables transfer_single, transfer_batched and transfer_groups
WITH
    known_groups AS (
        SELECT group_id, any_value(members) AS members
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
                TRY_CAST(string_split(nullif(regexp_extract(group_id, '\d+(-\d+)+$'), ''), '-') AS INTEGER[])
            ) AS members,
            peer,
            group_peer,
            if(kind IN ('send', 'recv'), tag, NULL) AS tag,
            given,
            taken,
            splits,
            overwritten,
            asynchronous
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
            true
        FROM transfer_batched
    ),
    placed AS (
        SELECT
            every.* EXCLUDE (members, peer, group_peer),
            coalesce(every.members, known_groups.members, world.members) AS members,
            CASE
                WHEN peer IS NOT NULL THEN peer
                WHEN group_peer IS NOT NULL
                THEN coalesce(every.members, known_groups.members, world.members)[group_peer + 1]
                WHEN kind IN ('broadcast', 'reduce', 'gather', 'scatter') THEN 0
            END AS peer
        FROM every
        CROSS JOIN world
        LEFT JOIN known_groups USING (group_id)
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
