-- transfers_in_order: the transfers in order.
-- grain: one transfer of one rank (see transfers)
-- parameters: after transfers
WITH
    present AS (
        SELECT step, meeting, list_sort(list_distinct(list(rank))) AS ranks
        FROM transfers
        WHERE meeting IS NOT NULL
        GROUP BY ALL
    )
SELECT
    transfers.* REPLACE (coalesce(list_filter(present.ranks, lambda other: other <> transfers.rank), []) AS partners)
FROM transfers
LEFT JOIN present USING (step, meeting)
ORDER BY transfers.step, transfers.rank, seq, coalesce(given[1], taken[1]), slot
