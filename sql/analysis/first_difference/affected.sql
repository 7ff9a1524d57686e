-- affected: since when each rank may have a difference: its own first one, or one that arrived earlier.
-- grain: one (step, rank) that a difference reaches
-- parameters: the tables firsts, gifts and arrivals
-- came_from: the rank that it first came from; NULL if nothing explains the rank's own first difference
-- A fixpoint of happens-before (Lamport 1978): a rank that is reached passes on everything that it gives later.
WITH RECURSIVE
    affected(step, rank, since, came_from) USING KEY (step, rank) AS (
        SELECT step, rank, moment::DOUBLE, NULL::INTEGER FROM firsts
        UNION
        SELECT
            arrivals.step,
            arrivals.rank,
            min(arrivals.moment)::DOUBLE,
            arg_min(carried.giver, (arrivals.moment, carried.giver))
        FROM (
            SELECT gifts.step, gifts.meeting, min(gifts.rank) AS giver
            FROM affected
            JOIN gifts ON gifts.step = affected.step AND gifts.rank = affected.rank AND gifts.moment >= affected.since
            GROUP BY ALL
        ) AS carried
        JOIN arrivals ON arrivals.step = carried.step AND arrivals.meeting = carried.meeting
        LEFT JOIN recurring.affected AS known ON known.step = arrivals.step AND known.rank = arrivals.rank
        WHERE
            known.rank IS NULL
            OR arrivals.moment < known.since
            OR (arrivals.moment = known.since AND known.came_from IS NULL)
        GROUP BY arrivals.step, arrivals.rank
    )
FROM affected
