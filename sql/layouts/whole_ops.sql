-- whole_ops: the ops of the merged unit, each with the row of ops of the first rank that has it.
-- grain: one op of the whole
-- parameters: $run, $step, $golden, $golden_step, $golden_rank; after whole_order, whole_parents, cut_names, cut_ranks, whole_rows
WITH
    firsts AS (
        SELECT
            cut_names.whole,
            $run AS run,
            $step AS step,
            arg_min(cut_names.op, (cut_names.micro, cut_ranks.rank)) AS op,
            arg_min(cut_ranks.rank, (cut_names.micro, cut_ranks.rank)) AS rank
        FROM cut_names
        JOIN cut_ranks
            USING (piece)
        WHERE cut_names.whole IS NOT NULL
        GROUP BY cut_names.whole
        UNION ALL BY NAME
        SELECT DISTINCT op AS whole, $golden AS run, CAST($golden_step AS INTEGER) AS step, op, CAST($golden_rank AS INTEGER) AS rank
        FROM alone_leaves
    ),
    rows_of AS (
        SELECT whole_op, min(whole_row) AS first_row
        FROM whole_rows
        WHERE reason IS NULL
        GROUP BY whole_op
    )
SELECT
    CAST(row_number() OVER (ORDER BY whole_order.place, whole_order.op) - 1 AS INTEGER) AS seq,
    whole_order.op,
    firsts.rank,
    parents.parent,
    parents.api,
    parents.api_type,
    parents.kind,
    parents.module_class,
    parents.direction,
    parents.call,
    parents.stem,
    ops.micro_step,
    ops.is_recompute,
    if(firsts.run = $run, ops.stack, NULL) AS stack,
    ops.sections,
    ops.empties,
    ops.extra,
    ops.began,
    rows_of.first_row
FROM whole_order
JOIN firsts
    ON firsts.whole = whole_order.op
JOIN whole_parents AS parents
    ON parents.op = whole_order.op
JOIN ops
    ON ops.run = firsts.run AND ops.step = firsts.step AND ops.rank = firsts.rank AND ops.op = firsts.op
LEFT JOIN rows_of
    ON rows_of.whole_op = whole_order.op
ORDER BY seq
