-- problems: the leaves whose layout is a contradiction, in the order of the ops.
-- grain: one leaf
-- parameters: after whole_rows
SELECT whole_op || if(slot = '', '', '.' || slot) AS name, problem
FROM whole_rows
WHERE problem IS NOT NULL
ORDER BY place, whole_op, first_row, slot, repeat
