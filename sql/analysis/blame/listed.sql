-- listed: the events on the short list.
-- grain: one event, of those of an op with the same reason on several ranks the first
-- parameters: $most; the table blame_ranked
-- ranks: all ranks with this op and reason
WITH
    grouped AS (
        SELECT
            step,
            op,
            reason,
            grade,
            is_downstream,
            min(nth) AS nth,
            list(rank ORDER BY rank) AS ranks
        FROM blame_ranked
        GROUP BY ALL
    )
SELECT
    grouped.ranks,
    ranked.*
FROM grouped
JOIN blame_ranked AS ranked USING (nth)
ORDER BY nth
LIMIT $most
