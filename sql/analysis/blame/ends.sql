-- ends: the op of each rank at which the path from the cause ends: the loss, or else the last op that differs.
-- grain: one rank on which something differs after the cause, or after a transfer that carried the difference there
-- parameters: $comparison, $target; the views results and ops, the tables blame_ops, blame_leaves, blame_cause,
--   blame_spread and transfers
-- nth: losses first; the cause's own rank before the others, which follow in the order in which the difference reached
--   them
-- The loss is the last forward op before the first backward op whose output is one float. If none was recorded (modules
-- only), the last forward op before the backward pass replaces it.
WITH
    begins AS (
        SELECT step, rank, place FROM blame_cause
        UNION ALL
        SELECT step, rank, seq FROM blame_spread ANTI JOIN blame_cause USING (step, rank)
    ),
    backwards AS (
        SELECT step, rank, min(seq) AS seq FROM ops WHERE run = $target AND direction = 'backward' GROUP BY ALL
    ),
    units AS MATERIALIZED (
        SELECT step, rank, place, coalesce(seq, 'inf'::DOUBLE) AS backward_place
        FROM begins
        LEFT JOIN backwards USING (step, rank)
    ),
    -- before their dtype is looked at, which takes longer
    single AS MATERIALIZED (
        SELECT step, rank, row, target_dtype
        FROM results
        WHERE comparison = $comparison AND target_max = target_min AND len(target_shape) = 0
    ),
    scalars AS (
        SELECT DISTINCT leaves.step, leaves.rank, leaves.target_seq
        FROM single
        JOIN blame_leaves AS leaves USING (step, rank, row)
        WHERE NOT leaves.is_input AND element_type(target_dtype) LIKE '%float%'
    ),
    candidates AS (
        SELECT
            blame_ops.step,
            blame_ops.rank,
            blame_ops.target_seq AS seq,
            blame_ops.op,
            blame_ops.output_error,
            blame_ops.direction = 'forward' AND blame_ops.place < backward_place AS is_before,
            scalars.target_seq IS NOT NULL AND blame_ops.kind = 'api' AS is_scalar
        FROM blame_ops
        JOIN units ON units.step = blame_ops.step AND units.rank = blame_ops.rank AND blame_ops.place >= units.place
        LEFT JOIN scalars
            ON scalars.step = blame_ops.step
            AND scalars.rank = blame_ops.rank
            AND scalars.target_seq = blame_ops.target_seq
        ANTI JOIN transfers
            ON transfers.step = blame_ops.step
            AND transfers.rank = blame_ops.rank
            AND transfers.seq = blame_ops.target_seq
        WHERE side <> 'golden' AND output_touched
    ),
    last_ops AS (
        SELECT
            step,
            rank,
            unnest(
                arg_max(
                    {'seq': seq, 'op': op, 'is_loss': is_before AND is_scalar, 'error': output_error},
                    (is_before, is_before AND is_scalar, seq)
                )
            )
        FROM candidates
        GROUP BY step, rank
    )
SELECT
    row_number() OVER (
        ORDER BY is_loss DESC, blame_cause.rank IS NULL, blame_spread.seq, last_ops.rank
    ) AS nth,
    last_ops.*
FROM last_ops
LEFT JOIN blame_cause USING (step, rank)
LEFT JOIN blame_spread USING (step, rank)
