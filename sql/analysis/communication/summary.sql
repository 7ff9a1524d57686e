-- summary: what the ranks of each group exchanged in a run.
-- grain: one kind of transfer of one group of one step, or one pair of sender and receiver
-- parameters: the tables transfers, tensors_moved and laws
-- complete: meetings for which the lake has the records of all members; bytes: put in by all ranks (NULL: not recorded)
WITH
    shares AS (
        SELECT
            step,
            meeting,
            rank,
            if(kind = 'recv', 'send', kind) AS kind,
            CASE kind WHEN 'send' THEN [rank, peer] WHEN 'recv' THEN [peer, rank] ELSE members END AS members,
            len(absent) = 0 AS is_complete,
            overwritten,
            unnest(if(len(given) > 0, given, [NULL])) AS row
        FROM transfers
    ),
    met AS (
        SELECT
            step,
            kind,
            members,
            meeting,
            bool_or(is_complete) AS is_complete,
            bool_or(overwritten) AS overwritten,
            sum(elements) AS elements,
            sum(elements * coalesce(TRY_CAST(regexp_extract(dtype, '\d+') AS INTEGER), 8) / 8) AS bytes
        FROM shares
        LEFT JOIN tensors_moved USING (step, rank, row)
        GROUP BY ALL
    ),
    groups AS (
        SELECT
            step,
            kind,
            members,
            count(meeting) AS meetings,
            count(meeting) FILTER (WHERE is_complete) AS complete,
            count(meeting) FILTER (WHERE overwritten) AS overwritten,
            CAST(sum(elements) AS BIGINT) AS elements,
            CAST(sum(bytes) AS BIGINT) AS bytes
        FROM met
        GROUP BY ALL
    ),
    verdicts AS (
        SELECT
            step,
            met.kind,
            members,
            count(DISTINCT meeting) FILTER (WHERE verdict = 'broken') AS broken,
            count(DISTINCT meeting) FILTER (WHERE verdict = 'cannot tell') AS undecided,
            list(DISTINCT law ORDER BY law) FILTER (WHERE verdict = 'broken') AS broken_laws
        FROM laws
        JOIN met USING (step, meeting)
        WHERE verdict <> 'holds'
        GROUP BY ALL
    )
SELECT
    groups.*,
    coalesce(broken, 0) AS broken,
    coalesce(undecided, 0) AS undecided,
    array_to_string(broken_laws, ', ') AS broken_laws
FROM groups
LEFT JOIN verdicts USING (step, kind, members)
ORDER BY step, kind, members
