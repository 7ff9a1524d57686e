-- chosen: the selected ops, each once.
-- grain: one op
-- parameters: the table drift_named
-- slots: the beginnings of its rows' slots; NULL selects all rows
SELECT
    op,
    any_value(module) AS module,
    if(bool_or(slot IS NULL), NULL, list(slot)) AS slots,
    any_value(role) AS role
FROM drift_named
GROUP BY op
