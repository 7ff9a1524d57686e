-- op_states: the ops of a comparison that are not wholly equal: how their inputs agree, and how their outputs.
-- grain: one op of one (step, rank): a pair, or an op of one side
-- parameters: $comparison; the view results, the table leaf_errors
-- place: the op's place in the target; an op that only the golden run has stands behind the paired op before it
-- input_state, output_state: the worst of the leaves: equal, noise or different (a leaf without counterpart is different);
--   NULL where the op has none. Parameters are inputs, gradients of parameters are outputs.
-- arguments_differ: an input that is no tensor differs, or one that has another dtype or shape
-- input_error, output_error: the largest error of the leaves (leaf_errors); 0 where all are equal
WITH
    ops AS (
        SELECT
            step,
            rank,
            target_seq,
            golden_seq,
            min(row) AS first_row,
            bool_or(role IN ('input', 'parameters')) AS has_input,
            bool_or(role NOT IN ('input', 'parameters')) AS has_output
        FROM results
        WHERE comparison = $comparison
        GROUP BY ALL
    ),
    pairs AS (
        SELECT step, rank, target_seq, golden_seq FROM ops WHERE target_seq IS NOT NULL AND golden_seq IS NOT NULL
    ),
    sides AS (
        SELECT *, role IN ('input', 'parameters') AS is_input FROM leaf_errors
    ),
    errors AS (
        SELECT
            step,
            rank,
            target_seq,
            golden_seq,
            bool_or(difference <> 'noise') FILTER (WHERE is_input) AS input_differs,
            bool_or(difference <> 'noise') FILTER (WHERE NOT is_input) AS output_differs,
            coalesce(bool_or(difference = 'different' AND (NOT is_tensor OR is_other_tensor)) FILTER (WHERE is_input), false)
                AS arguments_differ,
            coalesce(max(error) FILTER (WHERE is_input), 0) AS input_error,
            coalesce(max(error) FILTER (WHERE NOT is_input), 0) AS output_error
        FROM sides
        GROUP BY ALL
    ),
    -- a pair and an op of one side each have their own way to be found again: NULL joins with nothing
    states AS (
        SELECT
            ops.*,
            errors.* EXCLUDE (step, rank, target_seq, golden_seq),
            coalesce(ops.target_seq, before.target_seq + 0.5, -0.5)::DOUBLE AS place
        FROM errors
        JOIN ops
            ON ops.step = errors.step
            AND ops.rank = errors.rank
            AND coalesce(ops.target_seq, -1) = coalesce(errors.target_seq, -1)
            AND coalesce(ops.golden_seq, -1) = coalesce(errors.golden_seq, -1)
        ASOF LEFT JOIN pairs AS before
            ON before.step = ops.step AND before.rank = ops.rank AND before.golden_seq <= ops.golden_seq
    ),
    names AS (
        SELECT step, rank, row, target_op, golden_op, module, stack FROM results WHERE comparison = $comparison
    )
SELECT
    step,
    rank,
    place,
    target_seq,
    golden_seq,
    coalesce(target_op, golden_op) AS op,
    golden_op,
    module,
    stack,
    CASE
        WHEN NOT has_input THEN NULL
        WHEN input_differs THEN 'different'
        WHEN NOT input_differs THEN 'noise'
        ELSE 'equal'
    END AS input_state,
    CASE
        WHEN NOT has_output THEN NULL
        WHEN output_differs THEN 'different'
        WHEN NOT output_differs THEN 'noise'
        ELSE 'equal'
    END AS output_state,
    arguments_differ,
    input_error,
    output_error,
    CASE
        WHEN target_seq IS NULL THEN 'only in golden'
        WHEN golden_seq IS NULL THEN 'only in target'
        WHEN input_differs OR output_differs THEN 'different'
        ELSE 'noise'
    END AS finding
FROM states
JOIN names USING (step, rank)
WHERE names.row = first_row
ORDER BY step, rank, place
