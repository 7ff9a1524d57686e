-- asked: the ops and rows that the user names.
-- grain: one name that was asked for, and one op that it selects
-- parameters: $names; the table drift_ops
-- A name is an op, a row, a module's path, or the beginning of one up to a dot, which selects everything inside. Any other
-- name selects all ops that begin with it. A row's slot follows the op's name; NULL selects all rows.
WITH
    meanings AS (
        SELECT
            name,
            op,
            module,
            if(starts_with(name, op || '.'), substr(name, length(op) + 2), NULL) AS slot,
            name IN (op, coalesce(path, op))
            OR starts_with(op, name || '.')
            OR coalesce(starts_with(path, name || '.'), false)
            OR slot IS NOT NULL AS is_whole
        FROM (SELECT unnest($names) AS name)
        CROSS JOIN drift_ops
        WHERE is_whole OR starts_with(op, name)
    )
SELECT
    name,
    op,
    module,
    slot,
    NULL::VARCHAR AS role
FROM meanings
QUALIFY is_whole = bool_or(is_whole) OVER (PARTITION BY name)
