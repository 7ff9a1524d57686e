-- events: where a difference may have begun: ops that add error to their inputs, and differences without a source.
-- grain: one op of a comparison that may be a cause; the first 64 of a (step, rank)
-- parameters: the tables blame_ops, blame_incoming, blame_growth, blame_makers, blame_meetings, transfers,
--   repeat_errors, noise_ends and blame_noise
-- reason: the first of these that applies:
--   only in target, only in golden: the op has no counterpart
--   argument: the call has other arguments, and its output is not equal
--   taken: an input is not the output of the op that made it in golden, and that output agrees
--   absent: a transfer brought it from ranks that are not in the lake
--   made: an output differs and no input does, or its error is ten times the expected one
--   unrecorded: an input differs that no recorded op made, and nothing differs before it
-- Where ops round differently, the reason is the evidence by which the op stands out (sql/noise), in that order
-- (standing). A module in which an op differs is not an event. The output of a transfer whose record a nested call
-- overwrote is not evidence. An argument without any effect on the output is not an event either.
-- expected_error: the error of the inputs times the kind's growth, at least floor: 16 spacings of float32, or three
--   times the op's error in a repeat of the golden run
-- size: output error over expected error; infinite if NaN or inf are born
-- maker_differs: the op that made the input in golden gives something else here, or is missing
WITH
    moved AS (
        SELECT step, rank, seq FROM transfers GROUP BY ALL
    ),
    taken AS (
        SELECT
            step,
            rank,
            target_seq,
            row AS input_row,
            golden_maker,
            target_maker
        FROM blame_makers
        WHERE NOT maker_differs
        QUALIFY row_number() OVER (PARTITION BY step, rank, target_seq ORDER BY golden_maker IS NULL, row) = 1
    ),
    first_different AS (
        SELECT step, rank, min(place) AS place
        FROM blame_ops
        LEFT JOIN blame_incoming USING (step, rank, target_seq)
        WHERE
            (input_differs OR output_differs)
            AND NOT coalesce(asynchronous, false)
            AND NOT (only_digests AND NOT output_touched)
        GROUP BY ALL
    ),
    brought AS (
        SELECT step, rank, min(seq) AS seq FROM blame_meetings WHERE brought_error > 0 GROUP BY ALL
    ),
    measured AS (
        SELECT
            blame_ops.* REPLACE (
                if(blame_noise.evidence = 'argument', coalesce(arguments, [blame_noise.row]), arguments) AS arguments
            ),
            coalesce(incoming_error, 0) AS incoming_error,
            coalesce(brought_error, 0) AS brought_error,
            from_rank,
            meeting,
            coalesce(is_absent, false) AS is_absent,
            coalesce(overwritten, false) AS overwritten,
            coalesce(asynchronous, false) AS asynchronous,
            coalesce(is_container, false) AS is_container,
            moved.seq IS NOT NULL AS is_transfer,
            coalesce(growth, 1) AS growth,
            coalesce(getvariable('repeat_factor') * repeat_errors.error, 0) AS repeat_error,
            greatest(coalesce(growth, 1) * incoming_error, 2.0 ** -19, repeat_error) AS expected_error,
            noise_ends.place IS NOT NULL AS is_rounding,
            blame_noise.nth AS standing,
            blame_noise.evidence,
            if(is_rounding, blame_noise.row, taken.input_row) AS input_row,
            if(is_rounding, coalesce(blame_noise.golden_maker, found.golden_maker), taken.golden_maker) AS golden_maker,
            is_rounding AND blame_noise.golden_maker IS NULL AND coalesce(found.maker_differs, false) AS maker_differs,
            if(is_rounding, blame_noise.target_maker, taken.target_maker) AS target_maker,
            blame_ops.place <= first_different.place AND NOT coalesce(brought.seq <= blame_ops.place, false) AS is_first
        FROM blame_ops
        LEFT JOIN blame_incoming USING (step, rank, target_seq)
        LEFT JOIN blame_growth USING (kind, api_key, direction)
        LEFT JOIN first_different USING (step, rank)
        LEFT JOIN brought USING (step, rank)
        LEFT JOIN taken USING (step, rank, target_seq)
        LEFT JOIN repeat_errors USING (step, rank, golden_seq)
        LEFT JOIN moved
            ON moved.step = blame_ops.step
            AND moved.rank = blame_ops.rank
            AND moved.seq = blame_ops.target_seq
        LEFT JOIN noise_ends ON noise_ends.step = blame_ops.step AND noise_ends.rank = blame_ops.rank
        LEFT JOIN blame_noise
            ON blame_noise.step = blame_ops.step
            AND blame_noise.rank = blame_ops.rank
            AND blame_noise.target_seq IS NOT DISTINCT FROM blame_ops.target_seq
            AND (blame_ops.target_seq IS NOT NULL OR blame_noise.golden_seq = blame_ops.golden_seq)
        -- an op that the other run lacks makes no pair, so noise does not know it
        LEFT JOIN blame_makers AS found
            ON found.step = blame_noise.step AND found.rank = blame_noise.rank AND found.row = blame_noise.row
    ),
    judged AS (
        SELECT
            *,
            CASE
                WHEN is_rounding
                    THEN
                        CASE
                            WHEN evidence = 'argument' THEN 'argument'
                            WHEN evidence = 'missing' THEN 'only in ' || if(target_seq IS NULL, 'golden', 'target')
                            WHEN evidence = 'wiring' THEN 'taken'
                            WHEN evidence = 'source' THEN 'unrecorded'
                            WHEN is_of_values(evidence) THEN 'made'
                        END
                WHEN side <> 'pair' THEN 'only in ' || side
                WHEN is_container THEN NULL
                WHEN arguments IS NOT NULL AND (output_touched OR is_transfer) THEN 'argument'
                WHEN golden_maker IS NOT NULL THEN 'taken'
                WHEN is_absent AND output_differs AND incoming_error <= expected_error THEN 'absent'
                WHEN overwritten AND NOT input_differs THEN NULL
                WHEN output_differs AND incoming_error = 0 AND NOT input_differs THEN 'made'
                WHEN output_differs AND isfinite(incoming_error) AND output_error > getvariable('made_growth') * expected_error THEN 'made'
                WHEN input_row IS NOT NULL AND is_first THEN 'unrecorded'
            END AS reason,
            if(isfinite(expected_error), output_error / expected_error, 0) AS size
        FROM measured
    )
SELECT *
FROM judged
WHERE reason IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY step, rank ORDER BY standing, place, golden_seq) <= 64
