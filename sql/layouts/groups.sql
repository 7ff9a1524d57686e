-- groups: the groups of ranks that collectives join.
-- grain: one group
-- parameters: $run, $step; after transfers
-- within: one of their calls is made by a module
SELECT
    transfers.members,
    bool_or(ops.parent IS NOT NULL) AS within
FROM transfers
JOIN ops
    ON ops.run = $run AND ops.step = $step AND ops.rank = transfers.rank AND ops.seq = transfers.seq
WHERE transfers.step = $step AND transfers.kind NOT IN ('send', 'recv', 'barrier') AND len(transfers.members) > 1
GROUP BY transfers.members
ORDER BY transfers.members
