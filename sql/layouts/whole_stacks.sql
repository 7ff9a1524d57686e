-- whole_stacks: the call stacks of the ops of the merged unit.
-- grain: one call stack of one rank
-- parameters: $run, $step; after whole_ops
SELECT
    CAST(row_number() OVER (ORDER BY rank, stack) - 1 AS INTEGER) AS number,
    rank,
    stack,
    frames
FROM stacks
WHERE
    run = $run
    AND step = $step
    AND (rank, stack) IN (SELECT (rank, stack) FROM whole_ops WHERE stack IS NOT NULL)
ORDER BY number
