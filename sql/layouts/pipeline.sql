-- pipeline: the rank that comes before each in the pipeline: the one that it hears from before it sends anything.
-- grain: one rank of a later stage
-- parameters: $step; after transfers
SELECT
    rank,
    arg_min(peer, seq) AS before
FROM transfers
WHERE step = $step AND kind IN ('send', 'recv') AND peer IS NOT NULL
GROUP BY rank
HAVING arg_min(kind, seq) = 'recv'
ORDER BY rank
