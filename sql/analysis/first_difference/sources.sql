-- sources: the ops that made, in golden, the differing inputs of an op that nothing explains.
-- grain: one tensor input that differs, of the origins of the earliest step that differs
-- parameters: $comparison; the view results, the tables first_rows, doubtful, firsts and affected
-- source_row, source_op: the last earlier output with the same digest, or the same shape and statistics; NULL if there
--   is none: data, a weight, or a tensor that no recorded op made
-- source_difference: how the two sides of that output differ: equal, or noise
WITH
    starts AS (
        SELECT firsts.*
        FROM firsts
        JOIN affected USING (step, rank)
        WHERE came_from IS NULL AND tensor_differs AND firsts.step = (SELECT min(step) FROM firsts)
    ),
    inputs AS (
        SELECT first_rows.*
        FROM first_rows
        SEMI JOIN starts USING (step, rank)
        ANTI JOIN doubtful USING (step, rank, row)
        WHERE
            role IN ('input', 'parameters')
            AND difference = 'different'
            AND target_kind = 'tensor'
            AND golden_kind = 'tensor'
    ),
    made AS (
        SELECT
            inputs.step,
            inputs.rank,
            inputs.row,
            arg_max(outputs.row, outputs.golden_seq) AS source_row,
            arg_max(outputs.golden_op, outputs.golden_seq) AS source_op,
            arg_max(outputs.difference, outputs.golden_seq) AS source_difference
        FROM inputs
        JOIN results AS outputs
            ON outputs.step = inputs.step
            AND outputs.rank = inputs.rank
            AND outputs.golden_seq < inputs.golden_seq
            AND outputs.role = 'output'
            AND outputs.golden_shape = inputs.golden_shape
            AND outputs.golden_max = inputs.golden_max
            AND outputs.golden_min = inputs.golden_min
            AND outputs.golden_digest IS NOT DISTINCT FROM inputs.golden_digest
            AND outputs.golden_mean IS NOT DISTINCT FROM inputs.golden_mean
            AND outputs.golden_norm IS NOT DISTINCT FROM inputs.golden_norm
        WHERE outputs.comparison = $comparison
        GROUP BY ALL
    )
SELECT inputs.step, inputs.rank, inputs.row, inputs.golden_name AS name, source_row, source_op, source_difference
FROM inputs
LEFT JOIN made USING (step, rank, row)
