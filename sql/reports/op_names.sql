-- op_names: the names of ops that a shell completes: those that begin with a text, or else those that contain it.
-- grain: one name of an op
-- parameters: $incomplete, $most; the view ops
WITH
    found AS (
        SELECT DISTINCT op, starts_with(op, $incomplete) AS begins
        FROM ops
        WHERE contains(lower(op), lower($incomplete))
    )
SELECT op
FROM found
QUALIFY begins = max(begins) OVER ()
ORDER BY op
LIMIT $most
