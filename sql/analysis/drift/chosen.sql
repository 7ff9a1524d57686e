-- chosen: the selected ops, each once.
-- grain: one op
-- parameters: the table drift_named
-- slots: the beginnings of its rows' slots; NULL selects all rows
SELECT
    op,
    min(module) AS module,
    if(bool_or(slot IS NULL), NULL, list(slot)) AS slots,
    min(role) AS role
FROM drift_named
GROUP BY op
