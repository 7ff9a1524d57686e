-- transfer_arguments: the arguments and outputs of the sampled calls.
-- grain: one argument or output of one call
-- rows: its tensors; texts: the values of a list
-- parameters: the table transfer_parts
SELECT
    step,
    rank,
    seq,
    section,
    key,
    row,
    kind,
    value,
    extra,
    if(kind = 'tensor', [row], NULL) AS rows,
    NULL AS texts
FROM transfer_parts
WHERE NOT in_list
UNION ALL
SELECT
    step,
    rank,
    seq,
    section,
    key,
    min(row) AS row,
    first(kind ORDER BY row) AS kind,
    first(value ORDER BY row) AS value,
    first(extra ORDER BY row) AS extra,
    list(row ORDER BY row) FILTER (WHERE kind = 'tensor') AS rows,
    list(value ORDER BY row) FILTER (WHERE kind = 'scalar') AS texts
FROM transfer_parts
WHERE in_list
GROUP BY ALL
