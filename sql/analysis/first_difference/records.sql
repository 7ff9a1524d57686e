-- records: what the target recorded of one op, in the words of msprobe's diff_analyze file.
-- grain: one leaf of the op, without a module's parameters (as in msprobe)
-- parameters: $seq (the op's place in the target); results and stacks of one (step, rank), and cells, its rows as texts
SELECT
    if(role = 'input', 'input', 'output') AS side,
    cells.*,
    coalesce(if(target_type LIKE '%P2POp', target_extra ->> 'peer', NULL), 'None') AS peer,
    stacks.frames
FROM results
JOIN cells USING (row)
LEFT JOIN stacks ON stacks.stack = results.stack
WHERE results.target_seq = $seq AND role <> 'parameters'
ORDER BY results.row
