-- firsts: the first op of each rank that differs.
-- grain: one (step, rank) in which something differs
-- parameters: $steps (empty: all), $paired (skip ops without counterpart); the tables changed_ops, standing and
--   noise_ends
-- Where ops round differently, it is the first op that stands out of that.
-- paired_seq: the first op with a counterpart that differs, in the same order
WITH
    outstanding AS (
        SELECT
            standing.step,
            standing.rank,
            standing.target_seq,
            if(standing.finding = 'only in golden', standing.golden_seq, NULL) AS golden_seq,
            coalesce(input_differs, false) AS input_differs,
            coalesce(tensor_differs, false) AS tensor_differs,
            coalesce(input_error, 0) AS input_error,
            coalesce(output_error, 0) AS output_error,
            standing.finding,
            standing.place,
            if(input_differs OR standing.finding <> 'different', standing.place, standing.place + 0.25) AS moment,
            nth
        FROM standing
        LEFT JOIN changed_ops
            ON changed_ops.step = standing.step
            AND changed_ops.rank = standing.rank
            AND changed_ops.target_seq = standing.target_seq
    ),
    every AS (
        SELECT *, place AS turn FROM changed_ops ANTI JOIN noise_ends USING (step, rank)
        UNION ALL BY NAME
        SELECT * EXCLUDE (nth), false AS is_passing_on, nth AS turn
        FROM outstanding
        SEMI JOIN noise_ends USING (step, rank)
    ),
    asked AS (
        SELECT *
        FROM every
        WHERE
            (NOT $paired OR finding = 'different')
            AND (len($steps::INTEGER[]) = 0 OR list_contains($steps::INTEGER[], step))
    ),
    paired AS (
        SELECT step, rank, arg_min(target_seq, (is_passing_on, turn)) AS paired_seq
        FROM asked
        WHERE finding = 'different'
        GROUP BY ALL
    )
SELECT asked.* EXCLUDE (is_passing_on, turn), paired_seq
FROM asked
LEFT JOIN paired USING (step, rank)
QUALIFY row_number() OVER (PARTITION BY step, rank ORDER BY is_passing_on, turn) = 1
