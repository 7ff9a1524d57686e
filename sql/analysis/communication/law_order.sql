-- law_order: the members of a group make its collective calls in one order, and as many sends as receives.
-- grain: one group of one step, or one pair of sender and receiver: the first mismatch, or that there is none
-- parameters: $run; after transfers
-- Ranks that were not dumped are ignored. A mismatch makes a job hang or mix up its data. meeting: the calling rank.
WITH
    units AS (
        SELECT DISTINCT
            step,
            rank
        FROM dumps
        WHERE run = $run
    ),
    calls AS (
        SELECT
            step,
            members,
            rank,
            seq,
            op,
            kind,
            row_number() OVER (PARTITION BY step, members, rank ORDER BY seq) AS nth
        FROM transfers
        WHERE kind NOT IN ('send', 'recv')
    ),
    lengths AS (
        SELECT
            step,
            members,
            max(nth) AS longest
        FROM calls
        GROUP BY ALL
    ),
    places AS (
        SELECT
            step,
            members,
            rank,
            unnest(range(1, longest + 1)) AS nth
        FROM (SELECT *, unnest(members) AS rank FROM lengths)
        SEMI JOIN units USING (step, rank)
    ),
    sequences AS (
        SELECT
            places.*,
            seq,
            op,
            coalesce(kind, 'no call') AS kind
        FROM places
        LEFT JOIN calls USING (step, members, rank, nth)
    ),
    votes AS (
        SELECT
            step,
            members,
            nth,
            kind,
            count(*) AS votes
        FROM sequences
        GROUP BY ALL
    ),
    meant AS (
        SELECT
            step,
            members,
            nth,
            first(kind ORDER BY votes DESC, kind) AS meant,
            2 * max(votes) <= sum(votes) AS tied
        FROM votes
        GROUP BY ALL
        HAVING count(*) > 1
    ),
    -- after the first mismatch everything is shifted
    first_odd AS (
        SELECT
            step,
            members,
            min(nth) AS nth
        FROM meant
        GROUP BY ALL
    ),
    groups AS (
        SELECT
            lengths.step,
            'all calls of ' || group_text(lengths.members) AS meeting,
            'collective' AS kind,
            'same order' AS law,
            if(tied, NULL, sequences.rank) AS rank,
            seq,
            op,
            'arguments' AS seen_by,
            if(first_odd.nth IS NULL, 'holds', 'broken') AS verdict,
            if(tied, 'as many members make the one call as the other', NULL) AS reason,
            'call ' || first_odd.nth || ' of the group: ' || meant AS expected,
            'call ' || first_odd.nth || ' of the group: ' || sequences.kind AS found
        FROM lengths
        LEFT JOIN first_odd USING (step, members)
        LEFT JOIN meant
            ON meant.step = first_odd.step AND meant.members = first_odd.members AND meant.nth = first_odd.nth
        LEFT JOIN sequences
            ON sequences.step = first_odd.step
            AND sequences.members = first_odd.members
            AND sequences.nth = first_odd.nth
            AND sequences.kind <> meant.meant
    ),
    sends AS (
        SELECT
            step,
            regexp_replace(meeting, ' #\d+$', '') AS place,
            min(if(kind = 'send', rank, peer)) AS sender,
            min(if(kind = 'send', peer, rank)) AS receiver,
            count(*) FILTER (WHERE kind = 'send') AS sent,
            count(*) FILTER (WHERE kind = 'recv') AS received,
            arg_max(seq, turn) AS seq,
            arg_max(op, turn) AS op
        FROM transfers
        WHERE kind IN ('send', 'recv') AND meeting IS NOT NULL
        GROUP BY step, place
    )
FROM groups
UNION ALL BY NAME
SELECT
    step,
    'all of ' || place AS meeting,
    'send' AS kind,
    'same order' AS law,
    NULL AS rank,
    if(sent <> received, seq, NULL) AS seq,
    if(sent <> received, op, NULL) AS op,
    'arguments' AS seen_by,
    if(sent = received, 'holds', 'broken') AS verdict,
    if(sent <> received, sent || ' sent', NULL) AS expected,
    if(sent <> received, received || ' received', NULL) AS found
FROM sends
WHERE (step, sender) IN (FROM units) AND (step, receiver) IN (FROM units)
