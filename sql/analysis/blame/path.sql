-- path: the ops of a path, with the errors of their inputs and outputs.
-- grain: one op of the path, from the cause on
-- parameters: $target, $ranks (those of the path, a list); the view ops, the tables blame_ops and blame_hops
SELECT
    hops.nth,
    hops.rank,
    ops.op,
    ops.parent AS module,
    coalesce(input_error, 0) AS input_error,
    coalesce(output_error, 0) AS output_error,
    hops.how,
    hops.from_rank,
    hops.meeting,
    hops.seq
FROM blame_hops AS hops
JOIN ops ON ops.run = $target AND ops.step = hops.step AND ops.rank = hops.rank AND ops.seq = hops.seq
LEFT JOIN blame_ops
    ON blame_ops.step = hops.step
    AND blame_ops.rank = hops.rank
    AND blame_ops.target_seq = hops.seq
WHERE list_contains($ranks, ops.rank)
ORDER BY hops.nth
