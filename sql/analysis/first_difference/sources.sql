-- sources: the ops that made, in golden, the differing inputs of an op that nothing explains.
-- grain: one tensor input that differs, of the origins of the earliest step that differs
-- parameters: $comparison; the view results, the tables first_rows, doubtful, firsts and affected
-- source_row, source_op: the last earlier output with the same shape, digest and statistics, of what was recorded; NULL
--   if there is none: data, a weight, or a tensor that no recorded op made
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
            outputs.row AS source_row,
            outputs.golden_op AS source_op,
            outputs.difference AS source_difference
        FROM inputs
        JOIN results AS outputs
            ON outputs.step = inputs.step
            AND outputs.rank = inputs.rank
            AND outputs.golden_seq < inputs.golden_seq
            AND outputs.role = 'output'
            AND outputs.golden_shape = inputs.golden_shape
            AND outputs.golden_max IS NOT DISTINCT FROM inputs.golden_max
            AND outputs.golden_min IS NOT DISTINCT FROM inputs.golden_min
            AND outputs.golden_digest IS NOT DISTINCT FROM inputs.golden_digest
            AND outputs.golden_mean IS NOT DISTINCT FROM inputs.golden_mean
            AND outputs.golden_norm IS NOT DISTINCT FROM inputs.golden_norm
        WHERE outputs.comparison = $comparison AND (inputs.golden_max IS NOT NULL OR inputs.golden_digest IS NOT NULL)
        QUALIFY row_number() OVER (
            PARTITION BY inputs.step, inputs.rank, inputs.row ORDER BY outputs.golden_seq DESC, outputs.row
        ) = 1
    )
SELECT inputs.step, inputs.rank, inputs.row, inputs.golden_name AS name, source_row, source_op, source_difference
FROM inputs
LEFT JOIN made USING (step, rank, row)
