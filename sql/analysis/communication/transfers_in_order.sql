-- transfers_in_order: the transfers in order.
-- grain: one transfer of one rank (see transfers)
-- parameters: after transfers
WITH
    present AS (
        SELECT step, meeting, list_sort(list_distinct(list(rank))) AS ranks
        FROM transfers
        GROUP BY ALL
    )
SELECT transfers.* REPLACE (list_filter(present.ranks, lambda other: other <> transfers.rank) AS partners)
FROM transfers
JOIN present
    ON present.step = transfers.step
    AND present.meeting IS NOT DISTINCT FROM transfers.meeting
ORDER BY transfers.step, transfers.rank, seq, coalesce(given[1], taken[1])
