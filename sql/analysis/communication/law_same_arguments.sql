-- law_same_arguments: members of a meeting agree on its reduction, root, dtype and size.
-- grain: one meeting where they agree, or one argument of one rank that most others (or a tie of them) contradict
-- parameters: after shares and tensors_moved
-- Any dump shows this. Sizes may differ where each member may have its own: all_gather, gather, scatter, all_to_all.
WITH
    named AS (
        SELECT
            shares.step,
            meeting,
            kind,
            shares.rank,
            seq,
            op,
            slot,
            -- each member of another kind may have a size of its own
            if(
                kind IN ('all_reduce', 'reduce', 'broadcast', 'reduce_scatter', 'send', 'recv'), elements, NULL
            ) AS elements,
            dtype,
            reduction,
            if(kind IN ('broadcast', 'reduce', 'gather', 'scatter'), peer, NULL) AS root
        FROM shares
        LEFT JOIN tensors_moved
            ON tensors_moved.step = shares.step
            AND tensors_moved.rank = shares.rank
            AND tensors_moved.row = coalesce(given[1], taken[1])
        WHERE NOT overwritten AND kind <> 'barrier'
    ),
    meetings AS (
        SELECT
            step,
            meeting,
            if(any_value(kind) = 'recv', 'send', any_value(kind)) AS kind,
            count(*) AS members,
            coalesce(min(elements) < max(elements), false)
            OR coalesce(min(dtype) < max(dtype), false)
            OR coalesce(min(reduction) < max(reduction), false)
            OR coalesce(min(root) < max(root), false) AS is_odd
        FROM named
        GROUP BY step, meeting
    ),
    -- few meetings are odd, and only these are looked at by argument
    arguments AS (
        SELECT
            step,
            meeting,
            kind,
            rank,
            seq,
            op,
            slot,
            unnest(['elements', 'dtype', 'reduction', 'root']) AS argument,
            unnest([CAST(elements AS VARCHAR), dtype, reduction, CAST(root AS VARCHAR)]) AS value
        FROM named
        SEMI JOIN (FROM meetings WHERE is_odd) AS odd_meetings USING (step, meeting)
    ),
    votes AS (
        SELECT
            step,
            meeting,
            argument,
            value,
            count(*) AS votes
        FROM arguments
        WHERE value IS NOT NULL
        GROUP BY ALL
    ),
    meant AS (
        SELECT
            step,
            meeting,
            argument,
            first(value ORDER BY votes DESC, value) AS value,
            2 * max(votes) <= sum(votes) AS tied
        FROM votes
        GROUP BY ALL
    ),
    odd AS (
        SELECT
            arguments.*,
            meant.value AS expected,
            tied
        FROM arguments
        JOIN meant USING (step, meeting, argument)
        WHERE arguments.value <> meant.value
    )
SELECT
    step,
    meeting,
    kind,
    'same arguments' AS law,
    if(tied, NULL, rank) AS rank,
    seq,
    op,
    slot,
    'arguments' AS seen_by,
    'broken' AS verdict,
    if(tied, 'as many members have the one as the other', NULL) AS reason,
    NULL AS error,
    argument || ' ' || expected AS expected,
    argument || ' ' || value AS found
FROM odd
UNION ALL BY NAME
SELECT
    step,
    meeting,
    kind,
    'same arguments' AS law,
    'arguments' AS seen_by,
    'holds' AS verdict
FROM meetings
WHERE NOT is_odd AND members > 1
