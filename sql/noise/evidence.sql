-- evidence: what rounding cannot produce.
-- grain: one op and one kind of evidence
-- parameters: the tables paired, differences, noise_ops, noise_leaves, noise_errors, noise_floors
-- evidence:
--   argument: a value, dtype or shape of an input differs, or only that of an output; or whether it is trained
--   missing: only one run has the op
--   wiring: one op made the input in golden, and another op, or none, in the target
--   source: an input that no recorded op made differs by more than another order of summation explains, or is another
--     constant
--   made: the inputs agree to the last bit (between implementations those of a matrix product up to rounding), and the
--     output does not, although such outputs are equal elsewhere, or by more than the coarsest chip rounds; or an
--     extreme of a product moves further than its terms round, or the norm of a sum far more than its terms
--   zeros: an op that gives no zero in golden gives some
-- row: the leaf that shows it
WITH
    recorded AS (
        SELECT
            coalesce(t.number, g.number) AS number,
            p.role,
            coalesce(target_kind, golden_kind) = 'tensor' AS is_tensor,
            bool_or(target_row IS NOT NULL) AND bool_or(golden_row IS NOT NULL) AS both
        FROM paired AS p
        LEFT JOIN noise_ops AS t ON t.target_seq = p.target_seq
        LEFT JOIN noise_ops AS g ON g.golden_seq = p.golden_seq AND p.target_seq IS NULL
        GROUP BY ALL
    ),
    -- a leaf of one side alone belongs to the pair of its op
    alone AS (
        SELECT
            coalesce(t.number, g.number) AS number,
            p.row,
            p.role,
            coalesce(target_kind, golden_kind) = 'tensor' AS is_tensor
        FROM paired AS p
        LEFT JOIN noise_ops AS t ON t.target_seq = p.target_seq AND t.side = 'pair'
        LEFT JOIN noise_ops AS g ON g.golden_seq = p.golden_seq AND g.side = 'pair'
        JOIN verdicts AS v ON v.row = p.row AND v.verdict <> 'skipped'
        WHERE p.target_row IS NULL OR p.golden_row IS NULL
    ),
    -- an op of which something is judged (it is not a step inside what the other run does in one, nor to be expected), and
    -- that has a counterpart by its name at most: an op that does what several do there pairs with all of them
    judged AS (
        SELECT target_seq FROM paired JOIN verdicts USING (row) WHERE verdict <> 'skipped' AND target_seq IS NOT NULL
        EXCEPT
        SELECT target_seq FROM paired WHERE matched_by <> 'exact'
    ),
    golden_judged AS (
        SELECT golden_seq FROM paired JOIN verdicts USING (row) WHERE verdict <> 'skipped' AND golden_seq IS NOT NULL
        EXCEPT
        SELECT golden_seq FROM paired WHERE matched_by <> 'exact'
    ),
    calls AS (
        SELECT
            o.number,
            o.place,
            o.api,
            p.row,
            p.role NOT IN ('output', 'parameters_grad') AS is_input,
            p.target_kind = 'tensor' AND p.golden_kind = 'tensor' AS is_tensor,
            NOT same_dtype(p.target_dtype, p.golden_dtype) AS other_dtype,
            -- where inputs lie otherwise in memory, a function may end in another step, whose gradient has another shape
            NOT same_shape(p.target_shape, p.golden_shape, p.matched_by)
            AND NOT (o.phase = 'backward' AND list_product(p.target_shape) = list_product(p.golden_shape)) AS other_shape,
            p.target_kind = p.golden_kind
            AND p.target_number IS NOT NULL
            AND p.golden_number IS NOT NULL
            AND abs(p.target_number - p.golden_number)
            <= if(lowness.is_low, 0.03, 0.01) * greatest(abs(p.target_number), abs(p.golden_number))
            AND NOT (is_written(p.target_number) AND is_written(p.golden_number))
            AND NOT coalesce(is_root(p.golden_number), false) AS is_measured
        FROM paired AS p
        JOIN differences AS d ON d.row = p.row
        JOIN noise_ops AS o ON o.target_seq = p.target_seq AND o.side = 'pair' AND p.golden_seq IS NOT NULL
        CROSS JOIN (SELECT bool_or(is_low_precision(spacing)) AS is_low FROM noise_errors) AS lowness
        JOIN verdicts AS v ON v.row = p.row AND v.verdict <> 'skipped'
        WHERE d.difference = 'different' AND p.role <> 'parameters_grad'
    ),
    forms AS (
        SELECT
            number,
            place,
            api,
            min(row) FILTER (WHERE NOT is_tensor AND NOT coalesce(is_measured, false) AND is_input) AS value_row,
            min(row) FILTER (WHERE NOT is_tensor AND NOT coalesce(is_measured, false) AND NOT is_input) AS made_value_row,
            min(row) FILTER (WHERE is_input AND is_tensor AND other_dtype) AS dtype_row,
            min(row) FILTER (WHERE NOT is_input AND is_tensor AND other_dtype) AS made_dtype_row,
            min(row) FILTER (WHERE is_input AND is_tensor AND other_shape) AS shape_row,
            min(row) FILTER (WHERE NOT is_input AND is_tensor AND other_shape) AS made_shape_row
        FROM calls
        GROUP BY ALL
    ),
    -- a shape that hangs on data differs: so do those behind it
    flips AS (
        SELECT min(place) AS place
        FROM forms
        WHERE
            made_shape_row IS NOT NULL
            AND shape_row IS NULL
            AND regexp_matches(api, '^(where|nonzero|argwhere|unique|unique_consecutive|masked_select)$')
    ),
    first_forms AS (
        SELECT
            min(place) FILTER (WHERE made_dtype_row IS NOT NULL) AS dtype_place,
            min(place) FILTER (WHERE made_shape_row IS NOT NULL) AS shape_place
        FROM forms
    ),
    arguments AS (
        SELECT
            number,
            coalesce(
                value_row,
                if(forms.place <= coalesce(dtype_place, 'inf'), dtype_row, NULL),
                if(forms.place <= coalesce(shape_place, 'inf') AND forms.place < coalesce(flips.place, 'inf'), shape_row, NULL),
                made_value_row,
                if(dtype_row IS NULL, made_dtype_row, NULL),
                if(shape_row IS NULL AND forms.place < coalesce(flips.place, 'inf'), made_shape_row, NULL)
            ) AS row
        FROM forms
        CROSS JOIN first_forms
        CROSS JOIN flips
        UNION ALL
        SELECT number, alone.row
        FROM alone
        JOIN recorded USING (number, role, is_tensor)
        WHERE recorded.both AND role = 'input'
    ),
    -- what is trained in one run only is told where it is taken first
    trained AS (
        SELECT o.number, p.row
        FROM paired AS p
        JOIN verdicts AS v ON v.row = p.row AND list_contains(v.messages, 'error: requires_grad differs')
        JOIN noise_ops AS o ON o.target_seq = p.target_seq AND o.golden_seq = p.golden_seq
        WHERE o.phase = 'forward' AND o.is_leaf AND p.role IN ('input', 'parameters')
        ORDER BY o.number, p.row
        LIMIT 1
    ),
    matmul_floor AS (
        SELECT floor FROM noise_floors WHERE rounding = 'matmul'
    ),
    -- What made a value that only one run takes as an op gave it. A value of which a part is negated or turned, as by a rotary
    -- embedding, may have kept its maker's extremes in one run by chance. It has its maker's norm in both, and differs as its
    -- maker does.
    one_sided AS (
        SELECT
            m.row,
            max(made.upper) AS error,
            bool_or(
                made.upper > 0.3 * m.upper
                AND abs(made.target_norm - taken.target_norm) <= getvariable('same_norm') * taken.target_norm
                AND abs(made.golden_norm - taken.golden_norm) <= getvariable('same_norm') * taken.golden_norm
            ) AS is_turned
        FROM (
            SELECT row, upper, unnest(if(len(target_makers) > 0, target_makers, golden_makers)) AS maker
            FROM noise_makers
            WHERE is_leaf AND (len(golden_makers) > 0) <> (len(target_makers) > 0)
        ) AS m
        JOIN noise_leaves AS taken USING (row)
        JOIN noise_leaves AS made
            ON made.number = m.maker
            AND NOT made.is_input
            AND made.is_paired
            AND made.n = taken.n
        GROUP BY m.row
    ),
    -- the largest error so far; a single number may have lost three digits, which says nothing of tensors. What is left of
    -- terms that cancel has no sure digit, nor has what is made of it, which says nothing of tensors that are a hundred times
    -- larger
    before AS (
        SELECT
            o.number,
            coalesce(max(error) OVER earlier, 0) AS error,
            coalesce(max(error) FILTER (WHERE e.n >= 8) OVER earlier, 0) AS tensor_error,
            coalesce(max(error) FILTER (WHERE e.n >= 8 AND NOT is_lost) OVER earlier, 0) AS sure_error,
            100 * coalesce(max(magnitude) FILTER (WHERE is_lost) OVER earlier, 0) AS sure_from
        FROM noise_ops AS o
        LEFT JOIN (
            SELECT
                number,
                n,
                greatest(error_out, upper_out) AS error,
                error_in >= 0.5 AS is_lost,
                magnitude
            FROM noise_errors
        ) AS e ON e.number = o.number AND o.is_leaf
        WINDOW earlier AS (ORDER BY o.number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ),
    wires AS (
        SELECT number, min(row) AS row
        FROM noise_makers
        JOIN before USING (number)
        LEFT JOIN one_sided USING (row)
        CROSS JOIN matmul_floor
        WHERE
            is_leaf
            AND is_turned IS DISTINCT FROM true
            -- all probabilities of low precision look alike: their norms, too, have few digits
            AND NOT (is_bounded AND is_low_precision(spacing))
            AND (phase <> 'optimizer' OR NOT is_low_precision(spacing))
            AND (
                (
                    len(target_makers) > 0
                    AND len(golden_makers) > 0
                    AND NOT list_has_any(target_makers, golden_makers)
                    AND upper > greatest(0.02, getvariable('floor_factor') * floor)
                )
                OR (
                    phase = 'forward'
                    AND (len(golden_makers) > 0) <> (len(target_makers) > 0)
                    AND target_key IS NOT NULL
                    AND golden_key IS NOT NULL
                    AND is_float
                    -- a cast to 16 bits and back, which no op records, moves a value less than another one is apart
                    AND upper > if(
                        getvariable('cross_framework') = 0 AND n >= 8 AND NOT is_low_precision(spacing),
                        least(0.02, greatest(2.0 ** -15, 3 * before.tensor_error, 10 * coalesce(one_sided.error, 1))),
                        0.02
                    )
                    AND upper > getvariable('floor_factor') * floor
                )
            )
        GROUP BY number
    ),
    parameters_taken AS (
        SELECT upper, n
        FROM noise_makers
        WHERE is_source AND (is_parameter OR is_trained) AND is_float AND phase = 'forward'
    ),
    gradients_made AS (
        SELECT coalesce(median(error_out), 0) AS error
        FROM noise_errors
        JOIN noise_ops USING (number)
        WHERE direction = 'parameters_grad'
    ),
    -- behind a step of the optimizer parameters differ by the noise of that step; what ops add to a large error is no
    -- measure of it, but the gradients' error is: where hardly a sign of them is sure, steps go either way. The larger half
    -- of the parameters tells: a bias that began at 0 is as wrong as its gradient
    parameter_errors AS (
        SELECT
            coalesce(median(upper) FILTER (WHERE n >= middle_n), 0) AS middle,
            greatest(
                1e-3,
                if(getvariable('is_first_recorded'), 100 * any_value(floor), least(100 * any_value(floor), getvariable('outright_error'))),
                0.3 * any_value(gradients_made.error)
            ) AS most
        FROM parameters_taken
        CROSS JOIN gradients_made
        CROSS JOIN (SELECT median(n) AS middle_n FROM parameters_taken)
        CROSS JOIN matmul_floor
    ),
    integers AS (
        SELECT coalesce(min(number), 2147483647) AS number, max(magnitude) AS magnitude
        FROM noise_leaves
        WHERE NOT is_float AND role = 'output' AND op_is_leaf AND (differs OR NOT is_like)
    ),
    -- what golden took before the first integer differed comes from no decision that rounding flipped; nor does a number larger
    -- than all that were decided
    given_integers AS (
        SELECT DISTINCT golden_key
        FROM noise_leaves
        CROSS JOIN integers
        WHERE is_input AND NOT is_float AND noise_leaves.number <= integers.number AND golden_key IS NOT NULL
    ),
    -- what is less than a rounding of the largest input of its op, as the running mean of a channel that is centred already:
    -- to a normalisation comes what a product has rounded
    negligible AS (
        SELECT row
        FROM (
            SELECT
                l.row,
                l.magnitude,
                max(l.magnitude) OVER (PARTITION BY l.number) AS largest,
                greatest(l.spacing, 1e-6, if(is_normalisation(o.api), floor, NULL)) AS rounding
            FROM noise_leaves AS l
            JOIN noise_ops AS o USING (number)
            CROSS JOIN matmul_floor
            WHERE l.is_input AND l.is_float AND (is_normalisation(o.api) OR is_sum(o.api))
        )
        WHERE magnitude < largest * rounding
    ),
    -- a table of few rows: joined first, all rows would look for one of the other sign
    unknown AS MATERIALIZED (
        SELECT m.number, p.row, p.target_max, p.target_min, p.golden_max, p.golden_min, p.target_norm, p.golden_norm
        FROM noise_makers AS m
        JOIN paired AS p USING (row)
        WHERE m.is_source AND m.differs AND m.is_float AND m.phase = 'forward'
    ),
    -- what has the other sign of an earlier result in both runs, as a parameter that the first batch sets: a negation is not
    -- recorded
    negated AS (
        SELECT DISTINCT taken.row
        FROM unknown AS taken
        JOIN paired AS made
            ON made.target_max = -taken.target_min
            AND made.target_min = -taken.target_max
            AND made.golden_max = -taken.golden_min
            AND made.golden_min = -taken.golden_max
            AND made.role = 'output'
            AND abs(made.target_norm - taken.target_norm) <= getvariable('same_norm') * taken.target_norm
            AND abs(made.golden_norm - taken.golden_norm) <= getvariable('same_norm') * taken.golden_norm
        JOIN noise_ops AS o ON o.target_seq = made.target_seq AND o.number < taken.number
    ),
    sources AS (
        SELECT m.number, min(row) AS row
        FROM noise_makers AS m
        JOIN before USING (number)
        CROSS JOIN LATERAL (SELECT if(m.magnitude > sure_from, sure_error, tensor_error) AS sure) AS of_others
        ANTI JOIN negligible USING (row)
        ANTI JOIN negated USING (row)
        CROSS JOIN parameter_errors
        CROSS JOIN matmul_floor
        CROSS JOIN (SELECT most FROM noise_floors WHERE rounding = 'other') AS others
        CROSS JOIN integers
        WHERE
            is_source
            AND phase = 'forward'
            AND differs
            AND CASE
                -- a single number that is trained may well have few digits
                WHEN is_other_constant THEN n > 1 OR NOT is_parameter
                WHEN is_parameter OR (is_trained AND NOT getvariable('is_first_step'))
                    THEN getvariable('is_first_step') OR middle > parameter_errors.most
                WHEN NOT is_float
                    THEN
                        is_exact
                        OR m.number <= integers.number
                        OR m.golden_key IN (FROM given_integers)
                        OR m.magnitude > integers.magnitude
                WHEN is_exact AND getvariable('is_first_step') THEN coalesce(m.upper, 0) > getvariable('outright_factor') * others.most
                WHEN
                    has_same_extremes
                    AND coalesce(m.upper, 0) > greatest(
                        -- in float32 may lie what was rounded to 16 bits
                        1e-3, others.most, 2 * floor, sure
                    )
                    THEN true
                -- An error that goes one way in all elements moves norm and mean √n times as far; behind a step of the
                -- optimizer errors are larger.
                ELSE
                    coalesce(m.upper, 0) > greatest(
                        if(getvariable('is_first_step'), greatest(2e-4, least(2e-3, 1e-5 * sqrt(n))), getvariable('outright_error')),
                        getvariable('outright_factor') * floor,
                        -- beside a mask one element tells; an error of 1 is as large as the tensor
                        if(n < 8 OR m.is_masked, 1000 * before.error, 10 * least(sure, greatest(0.1, 0.3 * sure)))
                    )
            END
        GROUP BY m.number
    ),
    -- what no recorded op made may be cut from what one did, as by an index: then it has one of its extremes
    cuts AS (
        SELECT taken.row, max_by(o.number, (o.op_kind <> 'module', o.number)) AS number
        FROM sources
        JOIN paired AS taken USING (row)
        JOIN paired AS whole
            ON whole.role = 'output'
            AND whole.golden_row IS NULL
            AND whole.target_dtype = taken.target_dtype
            AND list_product(whole.target_shape) > list_product(taken.target_shape)
            AND whole.target_max >= taken.target_max
            AND whole.target_min <= taken.target_min
            AND (
                (whole.target_max = taken.target_max AND taken.target_max <> 0)
                OR (whole.target_min = taken.target_min AND taken.target_min <> 0)
            )
        JOIN noise_ops AS o ON o.target_seq = whole.target_seq AND o.is_leaf AND o.number < sources.number
        WHERE taken.target_max > taken.target_min AND epsilon_of(taken.target_dtype) > 0
        GROUP BY taken.row
    ),
    -- the gradient with which the compared part of the backward pass begins, as where the loss ends otherwise; a single
    -- number may have the other sign there
    gradients AS (
        SELECT m.number, min(row) AS row
        FROM noise_makers AS m
        JOIN before USING (number)
        CROSS JOIN matmul_floor
        WHERE
            is_source
            AND differs
            AND m.number = (
                SELECT min(number) FROM noise_makers WHERE phase = 'backward' AND is_leaf AND is_float AND n > 1
            )
            AND is_float
            AND n > 1
            AND coalesce(m.upper, 0) > greatest(
                getvariable('outright_error'), getvariable('outright_factor') * floor, 10 * before.error
            )
        GROUP BY m.number
    ),
    -- what the optimizer takes, if no recorded op made it in one run: gradients that are scaled in place differ all
    -- together, while those that cancel are noise; later the optimizer also takes what it kept
    taken AS (
        SELECT number, row, error
        FROM noise_makers
        WHERE
            getvariable('is_first_step')
            AND (is_source OR (len(golden_makers) > 0) <> (len(target_makers) > 0))
            AND differs
            AND phase = 'optimizer'
            AND is_float
            AND n > 1
            AND NOT is_parameter
    ),
    gradient_errors AS (
        SELECT phase, coalesce(median(error_out), 0) AS middle
        FROM noise_errors
        JOIN noise_ops USING (number)
        WHERE is_leaf AND phase IN ('backward', 'optimizer') AND number < (SELECT min(number) FROM taken)
        GROUP BY phase
    ),
    updates AS (
        SELECT
            number,
            row,
            greatest(getvariable('outright_error'), getvariable('outright_factor') * floor, 10 * middle) AS usual
        FROM taken
        CROSS JOIN matmul_floor
        CROSS JOIN (SELECT coalesce(max(middle), 0) AS middle FROM gradient_errors)
        QUALIFY
            count(*) OVER () >= 3
            AND median(error) OVER () > usual
            AND row_number() OVER (ORDER BY error > usual DESC NULLS LAST, number, row) = 1
    ),
    -- ‖t‖ - ‖g‖ is at most ‖t - g‖: where max and min stay, as in a row that a mask leaves one element, it tells more.
    -- Gradients are sums that cancel.
    norms AS (
        SELECT number, max(abs(shift)) AS moved
        FROM noise_leaves
        WHERE NOT is_input AND phase = 'forward' AND n > 1
        GROUP BY number
    ),
    -- A kernel that does not write all elements leaves zeros. Rounding makes one only where terms cancel to the last bit, about
    -- once in 2²⁵ elements, but often where terms have few bits; ops of a kind that do so more often tell nothing. What only
    -- picks elements makes none, but may pick another one of those that came in. Another implementation may leave out what a
    -- mask hides.
    zeros AS (
        SELECT
            o.number,
            any_value(o.kind) AS kind,
            any_value(o.rounding) = 'exact' AS only_picks,
            any_value(o.call_key) AS call_key,
            any_value(o.phase) AS phase,
            min(row) FILTER (WHERE NOT is_input AND target_zeros > 0) AS row,
            max(n) FILTER (WHERE NOT is_input) AS n,
            max(target_zeros) FILTER (WHERE NOT is_input) AS made,
            max(golden_zeros) FILTER (WHERE NOT is_input) AS golden_made,
            coalesce(
                bool_and(
                    coalesce(
                        abs(target_zeros - golden_zeros) <= if(isinf(makes_zeros_from(o.api)), golden_zeros / 8, 0)
                        AND (o.rounding <> 'exact' OR target_zeros = 0),
                        false
                    )
                ) FILTER (WHERE is_input),
                true
            ) AS are_given_alike,
            coalesce(max(magnitude) FILTER (WHERE is_input), 0) AS magnitude,
            makes_zeros_from(any_value(o.api)) AS from_magnitude,
            NOT is_low_precision(max(spacing)) AS is_precise,
            -- numbers of one sign cancel in no sum
            NOT isinf(from_magnitude)
            OR is_precise
            -- a batch norm may round the mean of a channel to 16 bits, too
            OR (is_normalisation(any_value(o.api)) AND NOT regexp_matches(any_value(o.api), '(?i)batch|instance'))
            OR coalesce(bool_and(smallest IS NOT NULL) FILTER (WHERE is_input), false) AS is_regular
        FROM noise_leaves AS l
        JOIN noise_ops AS o USING (number)
        WHERE
            o.side = 'pair'
            AND o.is_leaf
            AND o.op_kind <> 'module'
            AND o.phase <> 'optimizer'
            AND l.role IN ('input', 'output')
            AND l.is_float
            AND l.is_like
            AND getvariable('cross_framework') = 0
            AND makes_zeros_from(o.api) IS NOT NULL
        GROUP BY o.number
    ),
    lost AS (
        SELECT number, row
        FROM zeros
        QUALIFY
            golden_made = 0
            AND made > if(only_picks OR sum(if(only_picks, 0, n)) OVER () < 2e6, 0, 3 + n / 1e6)
            AND are_given_alike
            AND is_regular
            AND magnitude < from_magnitude
            -- a gradient vanishes where a function is flat; that of a parameter is a sum that may cancel
            AND (
                phase = 'forward'
                OR (
                    is_precise
                    AND isfinite(from_magnitude)
                    AND NOT only_picks
                    AND max(magnitude) FILTER (WHERE phase = 'forward') OVER (PARTITION BY call_key) < 8
                )
            )
            AND count(*) FILTER (WHERE made <> golden_made AND are_given_alike) OVER (PARTITION BY kind)
            <= greatest(1, count(*) OVER (PARTITION BY kind) / 8)
    ),
    -- A module in which ops were recorded may have another name, or none, in the other run: if they are there, nothing is
    -- missing. It takes the gradients of its parameters with it.
    absent_modules AS (
        SELECT module_of(op) FROM noise_ops WHERE side <> 'pair' AND op_kind = 'module' AND direction = 'forward'
    ),
    found AS (
        SELECT number, 'argument' AS evidence, min(row) AS row FROM arguments WHERE row IS NOT NULL GROUP BY number
        UNION ALL
        SELECT number, 'argument', row FROM trained
        UNION ALL
        SELECT number, 'missing', NULL
        FROM noise_ops
        WHERE
            is_leaf
            AND NOT (direction = 'parameters_grad' AND module_of(op) IN (FROM absent_modules))
            AND (
                (side = 'target' AND target_seq IN (FROM judged))
                OR (side = 'golden' AND golden_seq IN (FROM golden_judged))
            )
        UNION ALL
        SELECT number, 'wiring', row FROM wires
        UNION ALL
        SELECT coalesce(cuts.number, sources.number), 'source', sources.row FROM sources LEFT JOIN cuts USING (row)
        UNION ALL
        SELECT number, 'source', row FROM gradients
        UNION ALL
        SELECT number, 'source', row FROM updates
        UNION ALL
        SELECT number, 'zeros', row FROM lost
        UNION ALL
        SELECT number, 'made', NULL
        FROM noise_errors
        JOIN noise_ops USING (number)
        JOIN noise_floors USING (rounding)
        LEFT JOIN norms USING (number)
        WHERE
            is_leaf
            AND side = 'pair'
            -- between implementations few ops of a kind tell how it rounds
            AND error_in <= if(rounding = 'matmul' AND phase = 'forward' AND getvariable('cross_framework') <> 0, 1e-6, 0)
            AND greatest(error_out, moved) > CASE
                -- chips add up products of low precision in float32
                WHEN NOT is_bitwise AND is_low_precision(spacing) AND lower_out > 2 * greatest(spacing, 2 * floor)
                    THEN least(getvariable('outright_factor') * most, 4 * greatest(spacing, 2 * floor))
                WHEN NOT is_bitwise THEN getvariable('outright_factor') * most
                -- an element that rounds otherwise moves a tensor of low precision by less than a spacing
                WHEN is_low_precision(spacing) THEN spacing
                ELSE getvariable('noise_factor') * spacing
            END
        UNION ALL
        -- no element of a product moves further than its terms round, as it does where the rows of a factor are in another order
        SELECT number, 'made', NULL
        FROM noise_errors
        JOIN noise_ops USING (number)
        JOIN noise_floors USING (rounding)
        WHERE
            is_leaf
            AND side = 'pair'
            AND phase = 'forward'
            AND rounding = 'matmul'
            AND error_in <= most / 100
            AND extreme_out > extreme_condition * most
        UNION ALL
        -- the norm of a sum moves no further than its terms err and it rounds, as where the rows of one are in another order
        SELECT number, 'made', NULL
        FROM noise_errors
        JOIN noise_ops USING (number)
        JOIN norms USING (number)
        WHERE
            is_leaf
            AND side = 'pair'
            AND phase = 'forward'
            AND is_sum(api)
            AND moved > 100 * spacing
            -- both of the larger norm, as golden's may be what rounding left
            AND moved / (1 + moved) > 100 * error_in
    )
SELECT found.*, place, is_leaf, phase
FROM found
JOIN noise_ops USING (number)
