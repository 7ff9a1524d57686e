-- unit_stacks: the table stacks of the merged unit.
-- grain: one call stack
-- parameters: after whole_stacks
SELECT number AS stack, frames
FROM whole_stacks
ORDER BY number
