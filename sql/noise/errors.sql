-- errors: the input error and the output error of each op.
-- grain: one op of noise_ops that has a float output with a known error
-- parameters: the tables noise_leaves, noise_ops, noise_makers, noise_outputs, noise_inputs and noise_conditions
-- error_in: that of its inputs (noise/inputs). A backward op also uses the inputs and outputs of its forward op. Behind a
--   normalisation that hides it, a tenth of what went in there; behind the backward op of an activation or a normalisation,
--   what went in there. The gradient of a function of each element is flat where what comes in is large: what is left errs by
--   what came in times the largest slope (flattened, of which usual functions have 3)
-- relocated: how far a gradient errs if noise picked another element as the largest in a maximum, here or before
-- magnitude: the largest magnitude of its largest output
-- error_out, lower_out, extreme_out: of its results (noise/outputs)
-- is_masked: a mask determines an extreme of an output
-- condition: of the op (noise/conditions); of a backward op that of its forward call. A gradient of a softmax is p (g − Σ p g),
--   of which little may be left beside p g. A normalisation divides by the deviation of each channel or row. What its backward
--   op makes of the largest element tells the smallest of them: an error of what was normalised counts by that backwards,
--   and where the result is taken. Of one number it leaves nothing
-- extreme_condition: of the op (noise/conditions)
WITH
    -- what comes into each module, forwards and backwards
    reached AS (
        SELECT module_key, max(taken) AS error
        FROM noise_leaves
        JOIN noise_ops USING (number)
        WHERE is_paired AND is_input AND is_float AND op_kind = 'module'
        GROUP BY module_key
    ),
    known AS (
        SELECT
            o.number,
            o.call_key,
            o.module_key,
            o.direction,
            o.phase,
            o.api,
            o.parent,
            is_normalisation(o.api) AS is_normalisation,
            o.direction = 'forward' AND is_periodic(o.api) AS is_periodic,
            coalesce(outputs.is_masked, false) AS is_masked,
            conditions.is_passed_on,
            conditions.condition,
            conditions.extreme_condition,
            inputs.error AS error_taken,
            inputs.magnitude,
            if(divides_gradients(o.api), inputs.range, NULL) AS range,
            outputs.magnitude / nullif(inputs.magnitude, 0) AS grown,
            outputs.magnitude AS made,
            outputs.norm AS norm_out,
            -- how many times larger what came in backwards was
            outputs.incoming_norm / coalesce(nullif(outputs.norm, 0), nullif(outputs.larger_norm, 0)) AS shrunk,
            outputs.error_out,
            outputs.lower_out,
            outputs.upper_out,
            outputs.taken_out,
            outputs.extreme_out,
            outputs.spacing,
            outputs.n
        FROM noise_outputs AS outputs
        JOIN noise_ops AS o USING (number)
        JOIN noise_inputs AS inputs USING (number)
        JOIN noise_conditions AS conditions USING (number)
    ),
    saved AS (
        SELECT
            call_key,
            max(greatest(error_taken, taken_out)) AS error,
            max(if(is_attention(api) OR solves(api), condition, NULL)) AS condition,
            max(magnitude) AS magnitude,
            max(range) AS range,
            max(made) AS made
        FROM known
        WHERE phase = 'forward' AND direction = 'forward'
        GROUP BY call_key
    ),
    -- rows of zeros that were added deviate least, and do not err
    padded AS (
        SELECT known.call_key
        FROM (SELECT number, unnest(target_makers) AS maker FROM noise_makers WHERE phase = 'forward' AND is_float) AS makers
        JOIN known USING (number)
        JOIN noise_ops AS made ON made.number = makers.maker
        WHERE known.is_normalisation AND regexp_matches(made.api, '(?i)^pad(v3)?$|^constant_?pad')
    ),
    divided AS (
        -- where no gradient came back, as behind a weight that begins at 0, it may be ten
        SELECT call_key, if(max(known.grown) > 0, greatest(max(known.grown * saved.magnitude), 1), 10) AS condition
        FROM known
        JOIN saved USING (call_key)
        ANTI JOIN padded USING (call_key)
        WHERE known.direction = 'backward' AND known.is_normalisation
        GROUP BY call_key
    ),
    -- What no recorded op made may be a part of what was normalised last.
    taken AS (
        SELECT
            makers.number,
            makers.upper,
            unnest(if(len(target_makers) = 0 AND NOT is_parameter, [last.number], target_makers)) AS maker
        FROM noise_makers AS makers
        ASOF LEFT JOIN (FROM known WHERE is_normalisation AND direction = 'forward') AS last
            ON last.number < makers.number
        WHERE makers.phase = 'forward' AND is_leaf AND is_float
    ),
    -- what an activation gives of it hides it still, and so does a product; a mask hides it, too
    passing AS (
        SELECT taken.number AS maker, taken.maker AS earlier
        FROM taken
        JOIN known ON known.number = taken.number AND (is_passed_on OR is_masked)
    ),
    -- a module may put together what was made in it by an op that was not recorded: of sines beside cosines the norm tells nothing
    put_together AS (
        SELECT taken.number, taken.upper, made.number AS maker
        FROM taken
        JOIN noise_ops AS module ON module.number = taken.maker AND NOT module.is_leaf
        JOIN known AS made ON made.parent = module.op AND made.is_periodic
    ),
    -- behind none of these, one or two
    carried AS (
        FROM taken
        UNION ALL
        FROM put_together
        UNION ALL
        SELECT number, upper, earlier
        FROM taken
        JOIN passing USING (maker)
        UNION ALL
        SELECT number, upper, before.earlier
        FROM taken
        JOIN passing USING (maker)
        JOIN passing AS before ON before.maker = passing.earlier
    ),
    -- a normalisation of one number takes all of it away, and of its gradient leaves what rounds
    of_one AS (
        SELECT number
        FROM noise_leaves
        JOIN noise_ops USING (number)
        WHERE is_input AND is_paired AND is_float AND width = 1 AND n > 1 AND regexp_matches(api, '(?i)(layer|rms)_?norm')
    ),
    -- batch norms over a few values, of which each channel has one norm and one mean whatever they err by
    over_few AS (
        SELECT number
        FROM noise_leaves
        JOIN noise_ops USING (number)
        WHERE is_input AND is_paired AND is_float AND regexp_matches(api, '(?i)batch_?norm') AND noise_ops.phase = 'forward'
        GROUP BY number
        HAVING max(n) <= 16 * min(n) FILTER (WHERE n > 1)
    ),
    -- Statistics of what is normalised hardly show what differs in it, but ops behind it may: all but what was scaled. Nor do
    -- those of sines of large numbers. What is beside a mask may have any error that went in
    hiding AS (
        SELECT
            number,
            is_masked,
            error_taken
            * if(is_periodic, known.condition, coalesce(divided.condition, 1))
            * if(is_masked OR number IN (FROM over_few), 1, 0.1) AS error
        FROM known
        LEFT JOIN divided USING (call_key)
        WHERE is_masked OR is_periodic OR is_normalisation
    ),
    hidden AS (
        SELECT carried.number, max(error) AS error
        FROM carried
        JOIN hiding ON hiding.number = carried.maker
        WHERE error > if(is_masked, 10, 1) * carried.upper
        GROUP BY carried.number
    ),
    handed_on AS (
        SELECT number, unnest(target_makers) AS maker
        FROM noise_makers
        WHERE phase = 'backward' AND is_leaf AND is_float
    ),
    -- a gradient that an activation or a normalisation passes on errs as it did before it, though its statistics may agree by chance
    passed AS (
        SELECT handed_on.number, max(made.error_taken) AS error
        FROM handed_on
        JOIN known AS made
            ON made.number = handed_on.maker
            AND made.direction = 'backward'
            AND (is_passed_on OR is_normalisation)
            AND error_taken < 1
        GROUP BY handed_on.number
    ),
    -- Of two elements that are nearly equal, as those of equal tokens are, noise picks the other one as the largest. Its
    -- gradient goes elsewhere, which no statistic of it shows, nor of what passes it on
    picked AS (
        SELECT known.number, sqrt(2) * known.made / norm_out AS error
        FROM known
        JOIN saved ON saved.call_key = known.call_key AND saved.error > 0
        WHERE direction = 'backward' AND norm_out > 0 AND regexp_matches(api, '(?i)max_?pool|^a?(max|min)$')
    ),
    passers AS (
        SELECT number FROM known WHERE direction = 'backward' AND (is_passed_on OR is_normalisation)
    ),
    taken_once AS (
        SELECT handed_on.number, error
        FROM picked
        JOIN handed_on ON handed_on.maker = picked.number
    ),
    taken_twice AS (
        SELECT handed_on.number, error
        FROM taken_once
        SEMI JOIN passers ON passers.number = taken_once.number
        JOIN handed_on ON handed_on.maker = taken_once.number
    ),
    taken_thrice AS (
        SELECT handed_on.number, error
        FROM taken_twice
        SEMI JOIN passers ON passers.number = taken_twice.number
        JOIN handed_on ON handed_on.maker = taken_twice.number
    ),
    relocated AS (
        SELECT number, max(error) AS error
        FROM (FROM picked UNION ALL FROM taken_once UNION ALL FROM taken_twice UNION ALL FROM taken_thrice)
        GROUP BY number
    ),
    -- each op beside what its forward call took and made
    returned AS (
        SELECT
            known.*,
            saved.error AS saved_error,
            saved.range AS saved_range,
            saved.made AS saved_made,
            saved.condition AS saved_condition,
            shrunk * steepest(known.api, saved.made) / 3 AS flattened
        FROM known
        LEFT JOIN saved USING (call_key)
    )
SELECT
    known.number,
    greatest(
        error_taken,
        if(known.direction = 'backward', flattened * greatest(error_taken, if(flattened > 100, spacing / 2, 0)), NULL),
        hidden.error,
        passed.error,
        relocated.error,
        if(phase = 'backward', saved_error, NULL),
        if(known.direction = 'parameters_grad', reached.error, NULL)
    ) AS error_in,
    coalesce(relocated.error, 0) AS relocated,
    error_out,
    lower_out,
    upper_out,
    extreme_out,
    spacing,
    n,
    known.is_masked,
    CASE
        WHEN known.direction = 'backward' AND known.number IN (FROM of_one) THEN 1e12
        WHEN known.direction = 'backward' AND regexp_matches(known.api, '(?i)^softmax$')
            THEN greatest(known.condition, coalesce(saved_made * shrunk, 1))
        WHEN known.direction = 'backward' THEN coalesce(divided.condition, saved_range, saved_condition, known.condition)
        ELSE known.condition
    END AS condition,
    extreme_condition,
    known.made AS magnitude
FROM returned AS known
LEFT JOIN hidden ON hidden.number = known.number
LEFT JOIN passed ON passed.number = known.number
LEFT JOIN relocated ON relocated.number = known.number
LEFT JOIN divided ON divided.call_key = known.call_key
LEFT JOIN reached ON reached.module_key = known.module_key
WHERE error_out IS NOT NULL
