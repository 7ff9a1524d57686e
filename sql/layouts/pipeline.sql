-- pipeline: the rank that comes before each in the pipeline: the one that it hears from before it sends anything.
-- grain: one rank of a later stage
-- parameters: $step; after transfers
-- A batch that sends as well has heard from nobody before.
SELECT
    rank,
    arg_min(peer, (seq, peer)) AS before
FROM transfers
WHERE step = $step AND kind IN ('send', 'recv') AND peer IS NOT NULL
GROUP BY rank
HAVING arg_min(kind, (seq, kind = 'recv')) = 'recv'
ORDER BY rank
