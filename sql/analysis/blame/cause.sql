-- cause: the first suspect.
-- grain: one op, or none where nothing is suspect
-- parameters: the table blame_ranked
SELECT step, rank, place, target_seq
FROM blame_ranked
WHERE grade = 'suspect'
ORDER BY nth
LIMIT 1
