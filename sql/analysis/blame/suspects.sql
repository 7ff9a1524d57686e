-- suspects: the short list: the possible causes, with their evidence.
-- grain: one op, on all ranks with the same reason
-- parameters: $comparison, $target, $golden, $ranks (those of the list, a list); the views results, ops and stacks, the
--   tables blame_listed, blame_ops and compared_units
-- added_error: the output error beyond the error of the inputs times the kind's usual growth
WITH
    asked AS (
        SELECT nth, step, rank, only_digests, unnest(if(reason = 'argument', arguments, [input_row])) AS row FROM blame_listed
    ),
    asked_leaves AS (
        SELECT
            nth,
            only_digests,
            results.*,
            -- not the whole row: for each field that the macro reads, DuckDB would make a struct of all columns
            farthest_statistic({
                'target_max': target_max,
                'target_min': target_min,
                'target_mean': target_mean,
                'target_norm': target_norm,
                'golden_max': golden_max,
                'golden_min': golden_min,
                'golden_mean': golden_mean,
                'golden_norm': golden_norm,
                'golden_shape': golden_shape
            }) AS farthest
        FROM asked
        JOIN results USING (step, rank, row)
        WHERE comparison = $comparison AND list_contains($ranks, results.rank)
    ),
    sides AS (
        SELECT
            *,
            side_text(
                target_kind, target_type, target_dtype, target_shape, target_value,
                if(only_digests, NULL, statistic_text(farthest.name, farthest.target, farthest.golden)), target_digest,
                target_extra, target_requires_grad, golden_type, golden_extra, golden_requires_grad
            ) AS target_text,
            side_text(
                golden_kind, golden_type, golden_dtype, golden_shape, golden_value,
                if(only_digests, NULL, statistic_text(farthest.name, farthest.golden, farthest.target)), golden_digest,
                golden_extra, golden_requires_grad, target_type, target_extra, target_requires_grad
            ) AS golden_text
        FROM asked_leaves
    ),
    shown AS (
        SELECT
            nth,
            string_agg(
                substr(coalesce(target_name, golden_name), length(coalesce(target_op, golden_op)) + 2)
                || ' is '
                || if(
                    target_text = golden_text AND target_kind = 'tensor',
                    target_text || ' on both sides, with other elements',
                    target_text || ' against ' || golden_text
                ),
                ', '
                ORDER BY row
            ) AS leaves
        FROM sides
        GROUP BY nth
    ),
    -- each op, and what made its input on either side
    asked_ops AS (
        SELECT nth, 'own' AS what, $target AS run, step, rank, target_seq AS seq FROM blame_listed WHERE side <> 'golden'
        UNION ALL
        SELECT nth, 'own', $golden, golden_step, golden_rank, golden_seq
        FROM blame_listed
        JOIN compared_units USING (step, rank)
        WHERE side = 'golden'
        UNION ALL
        SELECT nth, 'target maker', $target, step, rank, target_maker FROM blame_listed
        UNION ALL
        SELECT nth, 'golden maker', $golden, golden_step, golden_rank, golden_maker
        FROM blame_listed
        JOIN compared_units USING (step, rank)
    ),
    found_ops AS (
        SELECT nth, what, run, step, rank, op, parent, stack
        FROM asked_ops
        JOIN ops USING (run, step, rank, seq)
        WHERE list_contains($ranks, ops.rank)
    ),
    places AS (
        SELECT nth, parent AS module, user_frame(frames) AS code
        FROM found_ops
        LEFT JOIN stacks USING (run, step, rank, stack)
        WHERE what = 'own'
    ),
    -- tensors that it took and that could not be compared
    unseen AS (
        SELECT DISTINCT nth
        FROM blame_listed
        JOIN results USING (step, rank, target_seq)
        WHERE
            comparison = $comparison
            AND list_contains($ranks, results.rank)
            AND role = 'input'
            AND outcome IN ('unrecorded', 'inside', 'unreadable')
            AND 'tensor' IN (target_kind, golden_kind)
    ),
    said AS (
        SELECT
            nth,
            CASE
                WHEN incoming_error = 0 AND nth IN (FROM unseen) THEN 'what was compared of its inputs agrees (error 0)'
                WHEN incoming_error = 0 THEN 'its inputs agree (error 0)'
                WHEN NOT isfinite(incoming_error) THEN 'NaN or inf came in on one side only'
                WHEN incoming_error * getvariable('made_growth') <= output_error THEN format('its inputs agree to {:.2g}', incoming_error)
                ELSE format('its inputs are off by {:.2g}', incoming_error)
            END AS inputs,
            CASE
                WHEN only_digests THEN 'its output has another digest'
                WHEN NOT output_touched THEN 'no output of it differs'
                WHEN isfinite(output_error) THEN format('its output is off by {:.2g}', output_error)
                ELSE 'NaN or inf stand in its output on one side only'
            END AS outputs
        FROM blame_listed
    ),
    golden_alone AS (
        SELECT (step, rank, golden_seq) FROM blame_ops WHERE side = 'golden'
    ),
    makers AS (
        SELECT
            nth,
            any_value(op) FILTER (WHERE what = 'golden maker') AS golden_maker,
            any_value(op) FILTER (WHERE what = 'target maker') AS target_maker
        FROM found_ops
        GROUP BY nth
    )
SELECT
    row_number() OVER (ORDER BY nth) AS nth,
    listed.step,
    listed.rank,
    listed.ranks,
    listed.op,
    places.module,
    places.code,
    listed.grade,
    listed.reason,
    listed.is_downstream,
    CASE reason
        WHEN 'argument' THEN format('its argument {}; {}, {}', leaves, inputs, outputs)
        WHEN 'made'
            THEN
                format('{}, {}', inputs, outputs)
                || if(
                    isfinite(size) AND growth > 1 AND incoming_error > 0,
                    format('; its kind makes {:.2g} of that', growth * incoming_error),
                    ''
                )
        WHEN 'taken'
            THEN
                if(
                    makers.golden_maker IS NULL,
                    format('its {}; in golden no recorded op made that', leaves),
                    format('its {}; in golden that is the output of {}, which ', leaves, makers.golden_maker)
                    || CASE
                        WHEN NOT maker_differs THEN 'agrees here'
                        WHEN (listed.step, listed.rank, listed.golden_maker) IN (FROM golden_alone) THEN 'the target lacks'
                        ELSE 'differs here'
                    END
                )
                || if(
                    makers.target_maker IS NULL OR makers.target_maker = makers.golden_maker,
                    ', so it came from no recorded op: memory was overwritten, or an op between them is not recorded',
                    format(', but it is that of {}', makers.target_maker)
                )
        WHEN 'unrecorded'
            THEN
                format('its {}, and came from no recorded op', leaves)
                || ' that both runs have: a weight, data, or the result of another op'
        WHEN 'absent' THEN 'it brought what differs from a rank that is not in the lake'
        WHEN 'only in target' THEN 'only the target has it'
        ELSE 'only golden has it'
    END
    || CASE grade
        WHEN 'structure' THEN '; nothing that both runs have differs after it'
        WHEN 'askew' THEN '; another op of its kind has the same in the other run, so it was paired with the wrong one'
        WHEN 'race'
            THEN
                if(
                    only_digests,
                    '; only digests differ, and the tensor is changed in place or of no consequence',
                    '; the transfer may have been recorded before it ended'
                )
        WHEN 'recording' THEN '; no number differs, but one side recorded less'
        WHEN 'noise' THEN '; as much as in the repeat'
        ELSE if(is_downstream, '; comes after another suspect', '')
    END AS why,
    incoming_error AS input_error,
    output_error,
    if(isfinite(incoming_error), greatest(output_error - growth * incoming_error, 0), 0) AS added_error,
    growth,
    repeat_error / getvariable('repeat_factor') AS repeat_error,
    meeting,
    from_rank,
    listed.place,
    listed.target_seq,
    listed.golden_seq
FROM blame_listed AS listed
LEFT JOIN shown USING (nth)
LEFT JOIN places USING (nth)
LEFT JOIN makers USING (nth)
LEFT JOIN said USING (nth)
ORDER BY nth
