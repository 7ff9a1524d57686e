-- origins: the rank on which the difference of each rank began.
-- grain: one (step, rank) that a difference reaches from an origin; others are stranded: they only reach each other
-- parameters: the table affected
WITH RECURSIVE
    origins AS (
        SELECT step, rank, rank AS origin FROM affected WHERE came_from IS NULL
        UNION ALL
        SELECT affected.step, affected.rank, origins.origin
        FROM origins
        JOIN affected ON affected.step = origins.step AND affected.came_from = origins.rank
    )
FROM origins
