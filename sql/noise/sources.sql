-- sources: ops of the forward pass of which an input that no recorded op made differs by more than another order of summation
--   or a repeat of golden explains, or at all where parameters are summed in one order, or is another constant; and parameters
--   that the optimizer moved otherwise before this step.
-- grain: one op and the leaf that shows it. An op may be there twice
-- is_apart: a parameter that noise may have moved so far, if it had enough steps before the first that was recorded: it tells
--   only where nothing else does
-- parameters: the tables paired, noise_makers, noise_ops, noise_leaves, noise_errors, noise_floors, noise_largest_before and
--   noise_repeated; thresholds
WITH
    matmul_floor AS (
        SELECT floor FROM noise_floors WHERE rounding = 'matmul'
    ),
    -- where parameters are known, what else is trained was computed by an op that was not recorded
    parameters_taken AS (
        SELECT row, upper, n, spacing, has_other_sums, target_key IS NOT NULL AS has_several_numbers
        FROM noise_makers
        WHERE
            is_source
            AND is_float
            AND phase = 'forward'
            AND (is_parameter OR (is_trained AND NOT EXISTS (FROM noise_makers WHERE is_parameter)))
    ),
    -- One sum that is not golden's to the last bit, beside those of four times as many parameters as large, or an eighth of it,
    -- that are: sums are made in one order, and an element is another. Fifty roundings tell that the order is not
    other_bits AS (
        SELECT row
        FROM (
            SELECT
                row,
                n AS elements,
                has_other_sums,
                count(*) FILTER (has_other_sums) OVER larger AS others,
                count(*) FILTER (NOT has_other_sums) OVER larger AS same
            FROM parameters_taken
            WHERE getvariable('is_first_step') AND has_several_numbers
            WINDOW larger AS (ORDER BY log2(n) DESC RANGE BETWEEN UNBOUNDED PRECEDING AND 3 FOLLOWING)
        )
        JOIN paired USING (row)
        WHERE
            has_other_sums
            AND same >= greatest(5, 4 * others)
            AND abs(target_mean - golden_mean) * elements > 6e-6 * (golden_norm + abs(golden_mean) * elements)
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
                -- a step in 16 bits ends at one spacing or at the next; and where a share of the signs is not sure, which grows
                -- with the error of gradients, as many elements step the other way
                if(
                    is_low_precision(any_value(spacing)),
                    greatest(any_value(spacing) / 2, 0.1 * sqrt(any_value(gradients_made.error))),
                    0
                ),
                if(getvariable('is_first_recorded'), 100 * any_value(floor), least(100 * any_value(floor), getvariable('outright_error'))),
                0.3 * any_value(gradients_made.error)
            ) AS most,
            middle <= most
            AND getvariable('is_first_recorded')
            AND NOT getvariable('is_first_step')
            AND middle > greatest(
                getvariable('outright_error'), if(is_low_precision(any_value(spacing)), 2 * any_value(spacing), 0)
            ) AS are_apart
        FROM parameters_taken
        CROSS JOIN gradients_made
        CROSS JOIN (SELECT median(n) AS middle_n FROM parameters_taken)
        CROSS JOIN matmul_floor
    ),
    integers AS (
        SELECT
            min(number) AS made,
            coalesce(min(number) FILTER (WHERE differs OR NOT is_like), 2147483647) AS number,
            max(magnitude) FILTER (WHERE differs OR NOT is_like) AS magnitude
        FROM noise_leaves
        WHERE NOT is_float AND role = 'output' AND op_is_leaf
    ),
    -- what golden took before the first integer differed comes from no decision that rounding flipped; nor does a number larger
    -- than all that were decided. Zeros and ones look alike, so those count that were taken before any decision
    given_integers AS (
        SELECT DISTINCT golden_key
        FROM noise_leaves AS l
        CROSS JOIN integers
        WHERE l.is_input AND NOT l.is_float AND l.number <= if(l.is_bounded, integers.made, integers.number) AND golden_key IS NOT NULL
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
            WHERE l.is_input AND l.is_float AND NOT l.is_masked AND (is_normalisation(o.api) OR is_sum(o.api))
        )
        WHERE magnitude < largest * rounding
    ),
    -- in 16 bits extremes say little, but the number of zeros does
    masks AS (
        SELECT row FROM noise_leaves WHERE is_input AND is_masked AND magnitude = 0 AND target_zeros <> golden_zeros
    ),
    -- what a search took for the same, although another value makes the same result of it, and not because it is a small term:
    -- no parameter, if these are known
    without_effect AS (
        SELECT row
        FROM noise_makers AS m
        JOIN noise_errors AS made USING (number)
        JOIN noise_ops AS o USING (number)
        WHERE
            getvariable('cross_framework') <> 0
            AND is_source
            AND is_float
            AND m.n > 1
            AND NOT is_parameter
            AND (NOT is_trained OR EXISTS (FROM noise_makers WHERE is_parameter))
            AND upper > 0.1
            AND error_out < 0.1 * m.error * if(is_sum(o.api), least(1, m.magnitude / nullif(made.magnitude, 0)), 1)
    ),
    -- a table of few rows: joined first, all rows would look for an earlier one
    unknown AS MATERIALIZED (
        SELECT
            m.number,
            m.is_parameter OR m.is_trained AS is_trained,
            m.has_same_extremes,
            m.upper,
            m.spacing,
            p.row,
            p.target_max,
            p.target_min,
            p.golden_max,
            p.golden_min,
            p.target_norm,
            p.golden_norm
        FROM noise_makers AS m
        JOIN paired AS p USING (row)
        WHERE m.is_source AND m.differs AND m.is_float AND m.phase = 'forward'
    ),
    -- an earlier result of both runs: of constants the same, which no key tells, and of all with the other sign, as of a
    -- parameter that the first batch sets: a negation is not recorded
    sought AS (
        SELECT * REPLACE (
            -target_min AS target_max, -target_max AS target_min, -golden_min AS golden_max, -golden_max AS golden_min
        )
        FROM unknown
        UNION ALL
        FROM unknown
        WHERE target_max = target_min AND golden_max = golden_min
    ),
    made_before AS (
        SELECT DISTINCT taken.row
        FROM sought AS taken
        JOIN paired AS made
            ON made.target_max = taken.target_max
            AND made.target_min = taken.target_min
            AND made.golden_max = taken.golden_max
            AND made.golden_min = taken.golden_min
            AND made.role = 'output'
            AND abs(made.target_norm - taken.target_norm) <= getvariable('same_norm') * taken.target_norm
            AND abs(made.golden_norm - taken.golden_norm) <= getvariable('same_norm') * taken.golden_norm
        JOIN noise_ops AS o ON o.target_seq = made.target_seq AND o.number < taken.number
    ),
    -- a table of few rows: joined first, all rows would look for one of their shape
    unknown_integers AS MATERIALIZED (
        SELECT m.number, p.row, p.target_shape, p.target_max, p.target_min, p.golden_max, p.golden_min
        FROM noise_makers AS m
        JOIN paired AS p USING (row)
        WHERE m.is_source AND m.differs AND NOT m.is_float AND m.phase = 'forward'
    ),
    -- nor is a cast. What is left of a number may be another integer where the number rounds
    cast_from_numbers AS (
        SELECT DISTINCT taken.row
        FROM unknown_integers AS taken
        JOIN paired AS made ON made.role = 'output' AND made.target_shape = taken.target_shape
        JOIN noise_leaves AS rounded ON rounded.row = made.row AND rounded.is_float AND rounded.differs AND rounded.number < taken.number
        WHERE
            is_cast(taken.target_max, made.target_max)
            AND is_cast(taken.target_min, made.target_min)
            AND is_cast(taken.golden_max, made.golden_max)
            AND is_cast(taken.golden_min, made.golden_min)
    ),
    -- rows that a choice picked from data which agrees: behind one that flipped they are others
    picked AS (
        SELECT DISTINCT taken.row
        FROM unknown AS taken
        JOIN integers ON integers.number < taken.number
        JOIN noise_leaves AS whole ON whole.is_input AND whole.is_float AND NOT whole.differs AND whole.number <= taken.number
        JOIN paired AS p ON p.row = whole.row
        WHERE
            NOT taken.is_trained
            AND p.target_max >= taken.target_max
            AND p.target_min <= taken.target_min
            AND p.golden_max >= taken.golden_max
            AND p.golden_min <= taken.golden_min
            AND (p.target_max = taken.target_max OR p.target_min = taken.target_min)
            AND p.target_max > p.target_min
    ),
    -- where an op writes may hang on a choice outside, so it says nothing if anything errs before
    written_at AS (
        SELECT number FROM noise_ops WHERE writes_at(api)
    ),
    -- a table of few rows: of all it takes long to tell how many digits they have
    given AS MATERIALIZED (
        FROM unknown
        WHERE upper > 1e-3 AND NOT is_trained AND NOT is_low_precision(spacing)
    ),
    -- two numbers of many digits stay to the last bit where nothing was computed: no bound clamps to such. And where numbers are
    -- computed, all four extremes hardly have few digits
    drawn AS (
        SELECT row
        FROM given
        WHERE
            if(
                has_same_extremes,
                NOT is_written_element(target_max) AND NOT is_written_element(target_min),
                is_written_element(target_max)
                AND is_written_element(target_min)
                AND is_written_element(golden_max)
                AND is_written_element(golden_min)
                AND target_max > target_min
            )
    ),
    -- golden's values times a number, all of them: nothing rounds so
    multiplied AS (
        SELECT row, abs(shift) AS share
        FROM noise_leaves
        WHERE
            is_input
            AND phase = 'forward'
            AND n >= 8
            AND abs(shift) > getvariable('coarsest_matmul')
            AND greatest(scatter, left_of_mean / sqrt(n)) < abs(shift) / 100
    ),
    -- in one table: with a join for each the statement takes 88 instead of 54 ms for 718 ops, most of it to plan them
    explained AS (
        SELECT row FROM noise_repeated
        UNION ALL
        FROM negligible
        UNION ALL
        FROM without_effect
        UNION ALL
        FROM made_before
        UNION ALL
        FROM picked
        UNION ALL
        FROM cast_from_numbers
    ),
    sources AS (
        SELECT
            m.number,
            bool_and(of_one.is_apart) AS is_apart,
            arg_min(row, (of_one.is_apart, row)) AS row
        FROM noise_makers AS m
        JOIN noise_largest_before AS before USING (number)
        ANTI JOIN explained USING (row)
        LEFT JOIN multiplied USING (row)
        CROSS JOIN parameter_errors
        CROSS JOIN matmul_floor
        CROSS JOIN (SELECT most FROM noise_floors WHERE rounding = 'other') AS others
        CROSS JOIN integers
        CROSS JOIN LATERAL (
            SELECT
                if(m.magnitude > sure_from, sure_error, tensor_error) AS sure,
                are_apart AND (is_parameter OR is_trained) AND NOT is_other_constant AS is_apart
        ) AS of_one
        WHERE
            is_source
            AND phase = 'forward'
            AND (differs OR row IN (FROM other_bits))
            AND CASE
                WHEN row IN (FROM other_bits) THEN true
                -- a single number that is trained may well have few digits
                WHEN is_other_constant AND (n > 1 OR NOT is_parameter) THEN true
                -- behind an equal step what no recorded op made of parameters can only differ as they do
                WHEN is_parameter OR (is_trained AND (getvariable('is_after_equal') OR NOT getvariable('is_first_step')))
                    THEN getvariable('is_first_step') OR getvariable('is_after_other_update') OR middle > parameter_errors.most OR are_apart
                WHEN NOT is_float AND m.number IN (FROM written_at) THEN before.error = 0
                WHEN NOT is_float
                    THEN
                        is_parameter
                        OR m.number <= integers.number
                        OR m.golden_key IN (FROM given_integers)
                        OR m.magnitude > integers.magnitude
                -- zeros beside masked elements, of which there are more or fewer
                WHEN m.is_masked AND m.magnitude = 0 THEN has_same_extremes OR row IN (FROM masks)
                WHEN is_exact AND getvariable('is_first_step') THEN coalesce(m.upper, 0) > getvariable('outright_factor') * others.most
                WHEN multiplied.share > before.tensor_error THEN true
                WHEN
                    row IN (FROM drawn)
                    AND m.number <= integers.number
                    AND coalesce(m.upper, 0) > greatest(1e-3, others.most, 2 * floor)
                    THEN true
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
                    -- an op that was not recorded may have cut a factor of all elements
                    coalesce(if(m.is_trained AND NOT m.is_parameter, m.taken, m.upper), 0) > greatest(
                        if(getvariable('is_first_step'), greatest(2e-4, least(2e-3, 1e-5 * sqrt(n))), getvariable('outright_error')),
                        getvariable('outright_factor') * floor,
                        -- beside a mask one element tells; an error of 1 is as large as the tensor
                        if(n < 8 OR m.is_masked, 1000 * before.error, 10 * least(sure, greatest(0.1, 0.3 * sure)))
                    )
                    -- what an op computed that was not recorded hangs on a choice that rounding flipped before
                    AND NOT (m.is_trained AND m.number > integers.number)
                    -- what was computed in 16 bits, and perhaps cut from a tensor that only one run has, errs by a spacing
                    AND (NOT is_low_precision(m.spacing) OR coalesce(m.error, 0) > m.spacing)
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
        -- what an op of the target alone gives as it is was put together there, and is cut from nothing
        ANTI JOIN paired AS itself
            ON itself.role = 'output'
            AND itself.golden_row IS NULL
            AND itself.target_max = taken.target_max
            AND itself.target_min = taken.target_min
            AND abs(itself.target_norm - taken.target_norm) <= getvariable('same_norm') * taken.target_norm
        WHERE taken.target_max > taken.target_min AND epsilon_of(taken.target_dtype) > 0
        GROUP BY taken.row
    )
SELECT coalesce(cuts.number, sources.number) AS number, row, is_apart
FROM sources
LEFT JOIN cuts USING (row)
