-- first_ops: the op of each rank's first difference, and the first op with a counterpart if that has none.
-- grain: one (step, rank) in which something differs
-- parameters: $target, $golden (runs); the views ops and stacks, the tables firsts, first_rows and compared_units
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
    ),
    -- the rows of an op that golden alone has may be those of a namesake in the target, which is another call
    places AS (
        SELECT step, rank, $target AS run, step AS own_step, rank AS own_rank, module, stack
        FROM named
        JOIN firsts USING (step, rank)
        WHERE finding <> 'only in golden'
        UNION ALL
        SELECT firsts.step, firsts.rank, $golden, golden_step, golden_rank, ops.parent, ops.stack
        FROM firsts
        JOIN compared_units USING (step, rank)
        JOIN ops
            ON ops.run = $golden
            AND ops.step = golden_step
            AND ops.rank = golden_rank
            AND ops.seq = firsts.golden_seq
        WHERE finding = 'only in golden'
    )
SELECT
    named.* EXCLUDE (module, stack),
    places.module,
    trim(regexp_replace(user_frame(stacks.frames), '\s+', ' ', 'g')) AS code,
    ops.op AS first_paired
FROM named
JOIN firsts USING (step, rank)
LEFT JOIN places ON places.step = named.step AND places.rank = named.rank
LEFT JOIN stacks
    ON stacks.run = places.run
    AND stacks.step = own_step
    AND stacks.rank = own_rank
    AND stacks.stack = places.stack
LEFT JOIN ops
    ON ops.run = $target
    AND ops.step = named.step
    AND ops.rank = named.rank
    AND ops.seq = firsts.paired_seq
    AND firsts.paired_seq IS DISTINCT FROM firsts.target_seq
