-- first_ops: the op of each rank's first difference, and the first op with a counterpart if that has none.
-- grain: one (step, rank) in which something differs
-- parameters: $run (the target); the views ops and stacks, the tables firsts and first_rows
WITH
    named AS (
        SELECT
            step,
            rank,
            if(
                any_value(firsts.finding) = 'only in golden',
                arg_min(golden_op, row),
                coalesce(arg_min(target_op, row), arg_min(golden_op, row))
            ) AS op,
            arg_min(golden_op, row) AS golden_op,
            arg_min(module, row) AS module,
            arg_min(stack, row) AS stack
        FROM first_rows
        JOIN firsts USING (step, rank)
        GROUP BY step, rank
    )
SELECT
    named.* EXCLUDE (stack),
    trim(regexp_replace(user_frame(stacks.frames), '\s+', ' ', 'g')) AS code,
    ops.op AS first_paired
FROM named
JOIN firsts USING (step, rank)
LEFT JOIN stacks
    ON stacks.run = $run AND stacks.step = named.step AND stacks.rank = named.rank AND stacks.stack = named.stack
LEFT JOIN ops
    ON ops.run = $run
    AND ops.step = named.step
    AND ops.rank = named.rank
    AND ops.seq = firsts.paired_seq
    AND firsts.paired_seq IS DISTINCT FROM firsts.target_seq
