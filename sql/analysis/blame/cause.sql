-- cause: the first suspect.
-- grain: one op; none without a suspect
-- parameters: the table blame_ranked
SELECT step, rank, place, target_seq
FROM blame_ranked
WHERE grade = 'suspect'
ORDER BY nth
LIMIT 1
