-- carried: the last meeting before a rank's first difference that may have carried it in.
-- grain: one (step, rank) whose first difference is explained
-- parameters: the tables transfers, firsts, affected, gifts and arrivals
-- giver: a rank that gave there and differed by then, preferably one that shows the difference itself
WITH
    givers AS (
        SELECT
            gifts.step,
            gifts.meeting,
            arg_min(
                gifts.rank,
                (firsts.moment IS NULL OR firsts.moment > gifts.moment, affected.since, gifts.rank),
                2
            ) AS ranks
        FROM gifts
        JOIN affected ON affected.step = gifts.step AND affected.rank = gifts.rank AND affected.since <= gifts.moment
        LEFT JOIN firsts ON firsts.step = gifts.step AND firsts.rank = gifts.rank
        GROUP BY ALL
    ),
    ways AS (
        SELECT
            arrivals.*,
            if(ranks[1] = arrivals.rank, ranks[2], ranks[1]) AS giver
        FROM arrivals
        JOIN firsts ON firsts.step = arrivals.step AND firsts.rank = arrivals.rank AND arrivals.moment <= firsts.moment
        JOIN affected
            ON affected.step = arrivals.step AND affected.rank = arrivals.rank AND affected.came_from IS NOT NULL
        JOIN givers ON givers.step = arrivals.step AND givers.meeting = arrivals.meeting
    ),
    last_ways AS (
        FROM ways
        WHERE giver IS NOT NULL
        QUALIFY row_number() OVER (PARTITION BY step, rank ORDER BY moment DESC, slot) = 1
    )
SELECT last_ways.step, last_ways.rank, giver, transfers.op, transfers.meeting
FROM last_ways
JOIN transfers
    ON transfers.step = last_ways.step
    AND transfers.rank = last_ways.rank
    AND transfers.seq = last_ways.seq
    AND transfers.slot IS NOT DISTINCT FROM last_ways.slot
