-- contributors: which ranks should contribute to each meeting, and what hides their contribution.
-- grain: one member of one meeting; only the sender, if one rank sends to another
-- parameters: after shares
-- root, reduction: what most members name, and of equally many the least
WITH
    meetings AS (
        SELECT
            step,
            meeting,
            if(any_value(kind) = 'recv', 'send', any_value(kind)) AS kind,
            mode(reduction ORDER BY reduction) AS reduction,
            mode(peer ORDER BY peer) AS root,
            arg_min(
                CASE kind WHEN 'send' THEN [rank] WHEN 'recv' THEN [peer] ELSE members END, (rank, seq)
            ) AS members
        FROM shares
        GROUP BY ALL
    ),
    expected AS (
        SELECT
            * EXCLUDE (members),
            len(members) AS size,
            unnest(members) AS rank,
            generate_subscripts(members, 1) - 1 AS place
        FROM meetings
    )
SELECT
    expected.*,
    shares.given,
    shares.splits,
    CASE
        WHEN shares.rank IS NULL THEN 'rank ' || expected.rank || ' has no record of it in the lake'
        WHEN shares.overwritten THEN 'the record of rank ' || expected.rank || ' was overwritten by a nested call'
        WHEN shares.given IS NULL THEN 'what rank ' || expected.rank || ' puts in was not recorded'
    END AS problem
FROM expected
LEFT JOIN shares
    ON shares.step = expected.step
    AND shares.meeting = expected.meeting
    AND shares.rank = expected.rank
    AND shares.kind <> 'recv'
