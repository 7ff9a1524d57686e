-- handed_on: the ops that received NaN or inf from other ranks.
-- grain: one op of the receiving rank
-- parameters: none; the tables transfers, overflow_judged
-- A receive that was recorded before its data arrived does not show it; what the sender gave does.
-- sources: the ranks that sent it; if the data has NaN or inf and the lake lacks members of the group, those members
WITH
    given AS (
        SELECT step, rank, meeting, unnest(given) AS row
        FROM transfers
    ),
    bad_givers AS (
        SELECT given.step, given.meeting, list_sort(list(DISTINCT given.rank)) AS ranks
        FROM given
        SEMI JOIN (
            FROM overflow_judged
            WHERE expected IS NULL
        ) AS leaf USING (step, rank, row)
        GROUP BY ALL
    ),
    bad_takers AS (
        SELECT DISTINCT step, rank, seq
        FROM overflow_judged
        WHERE side = 'out' AND expected IS NULL
    ),
    taken AS (
        SELECT
            taker.step,
            taker.rank,
            taker.seq,
            CASE
                WHEN len(bad_givers.ranks) > 1 OR bad_givers.ranks[1] <> taker.rank
                    THEN list_filter(bad_givers.ranks, lambda giver: giver <> taker.rank)
                WHEN bad_takers.seq IS NOT NULL AND len(taker.absent) > 0 THEN taker.absent
            END AS sources
        FROM transfers AS taker
        LEFT JOIN bad_givers ON bad_givers.step = taker.step AND bad_givers.meeting = taker.meeting
        LEFT JOIN bad_takers
            ON bad_takers.step = taker.step
            AND bad_takers.rank = taker.rank
            AND bad_takers.seq = taker.seq
        WHERE len(taken) > 0 AND (bad_givers.ranks IS NOT NULL OR len(absent) > 0)
    )
SELECT step, rank, seq, list_sort(list_distinct(flatten(list(sources)))) AS sources
FROM taken
WHERE sources IS NOT NULL
GROUP BY ALL
