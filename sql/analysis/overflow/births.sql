-- births: the ops where NaN or inf is born, or first seen if no recorded op made it, with advice.
-- grain: one op, at most $most, preferring those without an earlier NaN or inf on their rank
-- parameters: $run, $most; the views ops, tensors, stacks, the tables overflow_origins, overflow_advice
-- code: the line that called the op; for a backward op, the line of the forward call
-- came_in, came_out: the leaves of the op with their smallest and largest element
WITH
    first_born AS (
        FROM overflow_origins
        WHERE origin IN ('born', 'unseen')
        ORDER BY step, is_after_others, seq, rank
        LIMIT $most
    ),
    born AS (
        SELECT first_born.*, ops.part, ops.op, ops.direction, ops.parent, ops.stack
        FROM first_born
        JOIN ops
            ON ops.run = $run
            AND ops.step = first_born.step
            AND ops.rank = first_born.rank
            AND ops.seq = first_born.seq
    ),
    leaves AS (
        SELECT
            born.step,
            born.rank,
            born.seq,
            list(
                nonfinite_text(slot, dtype, shape, value, max, min, mean) ORDER BY row
            ) FILTER (role IN ('input', 'parameters') AND leaf.kind <> 'null') AS came_in,
            list(
                nonfinite_text(slot, dtype, shape, value, max, min, mean) ORDER BY row
            ) FILTER (role NOT IN ('input', 'parameters') AND leaf.kind <> 'null') AS came_out,
            coalesce(
                any_value(dtype ORDER BY row) FILTER (role = 'output' AND nonfinite_kinds(max, min, mean) > 0),
                any_value(dtype ORDER BY row)
            ) AS dtype
        FROM tensors AS leaf
        JOIN born ON leaf.run = $run AND leaf.step = born.step AND leaf.rank = born.rank AND leaf.seq = born.seq
        GROUP BY ALL
    )
SELECT
    born.step,
    born.rank,
    born.seq,
    born.op,
    level,
    origin,
    born.parent AS module,
    user_frame(frames) AS code,
    came_in,
    came_out,
    (
        SELECT advice
        FROM overflow_advice AS advice
        WHERE
            advice.origin = born.origin
            AND regexp_full_match(born.direction, advice.direction)
            AND regexp_full_match(born.name, advice.name)
            AND regexp_full_match(lower(coalesce(leaves.dtype, '')), advice.dtype)
            AND (advice.kinds = 15 OR (born.kinds_out & advice.kinds) > 0)
        ORDER BY place
        LIMIT 1
    ) AS advice,
    is_after_others
FROM born
LEFT JOIN leaves USING (step, rank, seq)
LEFT JOIN ops AS forward
    ON forward.run = $run
    AND forward.step = born.step
    AND forward.rank = born.rank
    AND born.direction = 'backward'
    AND forward.part = born.part
    AND forward.op = regexp_replace(born.op, '\.backward(\.\d+)?$', '.forward\1')
LEFT JOIN stacks
    ON stacks.run = $run
    AND stacks.step = born.step
    AND stacks.rank = born.rank
    AND stacks.stack = coalesce(born.stack, forward.stack)
