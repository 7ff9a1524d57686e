-- changed_ops: the ops that differ beyond float noise, or by more than the threshold, or have no counterpart.
-- grain: one op of the target, or one that only golden has, of one (step, rank)
-- parameters: $threshold (an error; 0 for anything that is not equal, NULL for float noise); the tables leaf_errors,
--   doubtful, op_pairs and early_gradients
-- place: the op's place in the target; early gradients come last, and an op that only golden has comes half a place
--   or more after the op before it
-- is_passing_on: a module that differs only in arguments that one side alone gave it; the op that takes them tells more
-- moment: when it differs: an op's inputs at its place, its outputs a quarter later
WITH
    partners AS (
        SELECT step, rank, golden_seq, min(target_seq) AS target_seq FROM op_pairs GROUP BY ALL
    ),
    leaves AS (
        SELECT
            leaf_errors.step,
            leaf_errors.rank,
            coalesce(leaf_errors.target_seq, partners.target_seq) AS target_seq,
            CASE
                WHEN leaf_errors.target_seq IS NULL AND partners.target_seq IS NULL THEN leaf_errors.golden_seq
            END AS golden_seq,
            role IN ('input', 'parameters') AS is_input,
            is_passed_on,
            leaf_errors.target_seq IS NOT NULL AND leaf_errors.golden_seq IS NOT NULL AS is_pair,
            difference <> 'unmatched' AND is_tensor AND NOT coalesce(is_other_tensor, false) AS is_value,
            error
        FROM leaf_errors
        ANTI JOIN doubtful USING (step, rank, row)
        -- a leaf that only golden has, of a paired op
        LEFT JOIN partners
            ON leaf_errors.target_seq IS NULL
            AND partners.step = leaf_errors.step
            AND partners.rank = leaf_errors.rank
            AND partners.golden_seq = leaf_errors.golden_seq
        WHERE
            CASE
                WHEN difference = 'unmatched' THEN true
                WHEN $threshold IS NULL THEN difference = 'different'
                ELSE error > $threshold OR $threshold = 0
            END
    ),
    sides AS (
        SELECT
            step,
            rank,
            target_seq,
            golden_seq,
            bool_and(is_passed_on) AS is_passing_on,
            bool_or(is_pair) AS is_pair,
            bool_or(is_input) AS input_differs,
            bool_or(is_input AND is_value) AS tensor_differs,
            coalesce(max(error) FILTER (WHERE is_input), 0) AS input_error,
            coalesce(max(error) FILTER (WHERE NOT is_input), 0) AS output_error
        FROM leaves
        GROUP BY ALL
    ),
    paired_ops AS (
        SELECT DISTINCT step, rank, target_seq FROM op_pairs
    ),
    before AS (
        SELECT
            sides.step,
            sides.rank,
            sides.golden_seq,
            partners.target_seq AS target_before,
            partners.golden_seq AS golden_before
        FROM sides
        ASOF JOIN partners
            ON partners.step = sides.step AND partners.rank = sides.rank AND partners.golden_seq <= sides.golden_seq
        WHERE sides.target_seq IS NULL
    )
SELECT
    sides.* EXCLUDE (is_passing_on, is_pair),
    CASE
        WHEN sides.target_seq IS NULL THEN 'only in golden'
        WHEN NOT is_pair AND paired_ops.target_seq IS NULL THEN 'only in target'
        ELSE 'different'
    END AS finding,
    finding = 'different' AND is_passing_on AS is_passing_on,
    coalesce(
        early_gradients.late_place, sides.target_seq, place_after(target_before, golden_before, sides.golden_seq)
    ) AS place,
    if(input_differs OR finding <> 'different', place, place + 0.25) AS moment
FROM sides
LEFT JOIN paired_ops
    ON paired_ops.step = sides.step AND paired_ops.rank = sides.rank AND paired_ops.target_seq = sides.target_seq
LEFT JOIN early_gradients
    ON early_gradients.step = sides.step
    AND early_gradients.rank = sides.rank
    AND early_gradients.target_seq = sides.target_seq
LEFT JOIN before
    ON sides.target_seq IS NULL
    AND before.step = sides.step
    AND before.rank = sides.rank
    AND before.golden_seq = sides.golden_seq
