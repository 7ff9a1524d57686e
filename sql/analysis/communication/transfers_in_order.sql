-- transfers_in_order: the transfers in order.
-- grain: one transfer of one rank (see transfers)
-- parameters: after transfers
FROM transfers
ORDER BY step, rank, seq, coalesce(given[1], taken[1])
