-- op_names: the names of ops that begin with a text, as a shell completes them.
-- grain: one name of an op
-- parameters: $incomplete, $most; the view ops
SELECT DISTINCT op
FROM ops
WHERE starts_with(op, $incomplete)
ORDER BY op
LIMIT $most
