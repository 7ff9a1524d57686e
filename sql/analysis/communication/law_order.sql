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
    -- a number is sorted and joined faster than a list of members
    numbered AS (
        SELECT
            row_number() OVER (ORDER BY members) AS number,
            members
        FROM (SELECT DISTINCT members FROM transfers WHERE kind NOT IN ('send', 'recv'))
    ),
    calls AS (
        SELECT
            step,
            number,
            rank,
            seq,
            op,
            kind,
            row_number() OVER (PARTITION BY step, number, rank ORDER BY seq) AS nth
        FROM transfers
        JOIN numbered ON numbered.members IS NOT DISTINCT FROM transfers.members
        WHERE kind NOT IN ('send', 'recv')
    ),
    lengths AS (
        SELECT
            step,
            number,
            members,
            longest
        FROM (SELECT step, number, max(nth) AS longest FROM calls GROUP BY ALL)
        JOIN numbered USING (number)
    ),
    places AS (
        SELECT
            step,
            number,
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
        LEFT JOIN calls USING (step, number, rank, nth)
    ),
    votes AS (
        SELECT
            step,
            number,
            nth,
            kind,
            count(*) AS votes
        FROM sequences
        GROUP BY ALL
    ),
    meant AS (
        SELECT
            step,
            number,
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
            number,
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
        LEFT JOIN first_odd USING (step, number)
        LEFT JOIN meant
            ON meant.step = first_odd.step AND meant.number = first_odd.number AND meant.nth = first_odd.nth
        LEFT JOIN sequences
            ON sequences.step = first_odd.step
            AND sequences.number = first_odd.number
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
