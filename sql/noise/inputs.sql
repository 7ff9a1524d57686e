-- inputs: how far what each op takes errs, and how large it is.
-- grain: one op of noise_outputs
-- parameters: the tables paired, target_leaves, noise_leaves, noise_ops, noise_makers, noise_outputs and noise_gradient_sums; the
--   variables is_first_step and cross_framework
-- error: the largest upper error of its inputs, 1 for an input of another shape. In a sum, inputs count by their size relative
--   to the output: the norm of the side where it is larger, since golden's may be 0. What is added to many elements counts
--   in each. After an optimizer step a parameter may differ in few elements only, which its statistics show from √n roundings
--   on, and by chance not at all: it errs like most of its size. Inputs of a sum, which may cancel, of a function with steps,
--   and of an op that only picks elements err by the precision of their statistics, unless those are equal to the last bit.
--   If less than a hundredth of the terms is left, what was computed errs by half a spacing all the same, which no statistic
--   shows. What a function of each element gave of what a factor explains errs by three times what its slope makes of that at
--   most. What an op picks of a tensor that no recorded op computed errs by as much as anything before
-- magnitude: the largest magnitude of its largest float input. What a sine takes has no masks, so its norm tells, too
-- range: the largest quotient of the largest and the smallest magnitude of an input whose elements have one sign
WITH
    leaves AS (
        SELECT l.*, o.api
        FROM noise_leaves AS l
        JOIN noise_ops AS o USING (number)
        WHERE l.is_paired AND l.is_input
    ),
    -- how far a step of the optimizer makes parameters of one size err
    stepped AS (
        SELECT n, median(upper) AS error
        FROM noise_makers
        WHERE (is_parameter OR is_trained) AND is_float AND phase = 'forward'
        GROUP BY n
    ),
    -- what began at zero is a step to either side in each element: where a gradient is smaller than its error it went to the
    -- other, and no statistic may show it
    gradients AS (
        SELECT median(error) AS error FROM noise_leaves WHERE role = 'parameters_grad'
    ),
    handed_on AS (
        SELECT row, unnest(target_makers) AS number FROM noise_makers WHERE phase = 'forward' AND is_leaf AND is_float
    ),
    normalised AS (
        SELECT DISTINCT row FROM handed_on JOIN noise_ops USING (number) WHERE is_normalisation(api)
    ),
    -- where a factor common to all elements explains what a function of each element took, its slope bounds what it gives, of which
    -- the factor explains less: three times that, since all of these are estimates. Behind a normalisation more may come to light
    activated AS (
        SELECT
            taken.number,
            3 * any_value(steepest(taken.api, made.magnitude))
            * max(taken.taken * taken.golden_norm) / min(nullif(made.golden_norm, 0)) AS error
        FROM leaves AS taken
        JOIN noise_leaves AS made ON made.number = taken.number AND NOT made.is_input AND made.n = taken.n
        ANTI JOIN normalised ON normalised.row = taken.row
        WHERE
            taken.phase = 'forward'
            AND taken.op_is_leaf
            AND taken.is_float
            AND taken.taken < taken.upper
            AND NOT is_low_precision(taken.spacing)
        GROUP BY taken.number
        HAVING count(*) = 1
    ),
    -- by the row that takes it
    bounded AS (
        SELECT row, min(error) AS error
        FROM handed_on
        JOIN activated USING (number)
        GROUP BY row
    ),
    given AS (
        SELECT
            leaves.number,
            leaves.magnitude,
            leaves.smallest,
            greatest(leaves.target_norm, leaves.golden_norm) AS norm,
            leaves.n,
            leaves.api,
            leaves.is_float,
            leaves.is_like,
            leaves.is_masked,
            leaves.differs,
            CASE
                WHEN leaves.target_norm <> leaves.golden_norm OR leaves.target_mean <> leaves.golden_mean
                    THEN leaves.rounding
                ELSE 0
            END AS unseen,
            -- zeros and ones that were computed, as of a choice, may be as many elsewhere
            is_reduction(leaves.api) AND leaves.is_float AND leaves.is_bounded AND NOT coalesce(m.is_source, true) AS is_moved,
            -- numbers beside a mask, put together by an op that was not recorded
            leaves.is_float
            AND leaves.is_masked
            AND leaves.magnitude > 0
            AND coalesce(m.is_source AND NOT m.is_parameter, false) AS is_hidden,
            -- computed by an op that was not recorded
            coalesce(m.is_trained AND NOT m.is_parameter, false)
            AND (SELECT count(*) > 0 FROM noise_makers WHERE is_parameter) AS is_computed,
            -- the last digit of what was computed, which no statistic may show
            if(m.is_source OR leaves.is_measured, 0, leaves.spacing / 2) AS last_digit,
            greatest(
                -- of what a normalisation hides, more may come to light behind it
                if(is_normalisation(leaves.api), leaves.taken, least(leaves.taken, bounded.error)),
                sums.error,
                if(
                    (m.is_parameter OR m.is_trained)
                    AND leaves.is_float
                    AND NOT leaves.is_measured
                    AND NOT getvariable('is_first_step'),
                    greatest(
                        sqrt(leaves.n) * leaves.rounding,
                        stepped.error,
                        if(
                            leaves.smallest IS NULL
                            AND greatest(leaves.target_norm, leaves.golden_norm) > 0.75 * leaves.magnitude * sqrt(leaves.n),
                            2 * sqrt(gradients.error),
                            NULL
                        )
                    ),
                    NULL
                )
            ) AS taken
        FROM leaves
        LEFT JOIN noise_makers AS m USING (row)
        LEFT JOIN stepped ON stepped.n = leaves.n
        CROSS JOIN gradients
        LEFT JOIN noise_gradient_sums AS sums ON sums.row = leaves.row
        LEFT JOIN bounded ON bounded.row = leaves.row
    ),
    -- of an op whose inputs one run did not record it is taken that it works on all that came before
    recorded AS (
        SELECT DISTINCT target_seq
        FROM paired
        WHERE role = 'input' AND target_row IS NOT NULL AND golden_row IS NOT NULL
    ),
    -- likewise where its largest input has no counterpart, as what a bias is added to is inside an op of the other program,
    -- or what is added to zeros
    unseen AS (
        SELECT target_seq
        FROM paired
        WHERE
            getvariable('cross_framework') <> 0
            AND role = 'input'
            AND target_kind = 'tensor'
            AND epsilon_of(target_dtype) > 0
        GROUP BY target_seq
        HAVING
            max(list_aggregate(target_shape, 'product')) FILTER (WHERE golden_row IS NULL)
            > coalesce(
                max(list_aggregate(target_shape, 'product'))
                FILTER (WHERE golden_row IS NOT NULL AND (target_max > target_min) IS DISTINCT FROM false),
                0
            )
    ),
    alone AS (
        SELECT
            p.target_seq,
            p.target_row,
            greatest(coalesce(list_product(p.target_shape), 1), 1)::DOUBLE AS n,
            value_key(t.max, t.min, t.zero_count, n, t.digest) AS key
        FROM paired AS p
        JOIN target_leaves AS t ON t.row = p.target_row
        WHERE
            getvariable('cross_framework') <> 0
            AND p.role = 'input'
            AND p.golden_row IS NULL
            AND epsilon_of(p.target_dtype) > 0
    ),
    -- but what an earlier op made, and was compared there, errs as it does there, and so does a parameter of a module
    traced AS (
        SELECT
            o.number,
            first(if(is_parameter, NULL, elsewhere.error) ORDER BY alone.n DESC, alone.target_row) AS error,
            max(elsewhere.error) FILTER (WHERE is_parameter) AS parameter_error
        FROM alone
        JOIN noise_ops AS o ON o.target_seq = alone.target_seq AND o.side = 'pair'
        LEFT JOIN (
            SELECT target_key, role = 'parameters' AS is_parameter, min(number) AS number, arg_min(taken, number) AS error
            FROM noise_leaves
            WHERE (NOT is_input OR role = 'parameters') AND is_paired AND target_key IS NOT NULL
            GROUP BY target_key, is_parameter
        ) AS elsewhere ON elsewhere.target_key = alone.key AND (is_parameter OR elsewhere.number < o.number)
        GROUP BY o.number
    ),
    -- nor does the last part of a normalisation of the other program, all of whose inputs are compared at its parts
    normalising AS (
        SELECT o.number, max(leaf.taken) AS error
        FROM noise_ops AS o
        JOIN paired AS p ON p.golden_seq = o.golden_seq
        LEFT JOIN noise_leaves AS leaf ON leaf.row = p.row AND leaf.is_paired
        WHERE
            getvariable('cross_framework') <> 0
            AND o.side = 'pair'
            AND is_normalisation(o.api)
            AND p.role = 'input'
            AND epsilon_of(p.golden_dtype) > 0
        GROUP BY o.number
        HAVING bool_and(leaf.row IS NOT NULL)
    ),
    -- what is added to many elements counts in each; in a sum over elements, or their mean, errors may have one sign
    weighed AS (
        SELECT
            given.*,
            given.norm / larger_norm * CASE
                WHEN is_reduction(api) THEN greatest(larger_norm / given.norm, if(api = 'mean', outputs.n / given.n, 1))
                WHEN regexp_matches(api, '(?i)cat|stack') THEN 1
                ELSE sqrt(greatest(1, outputs.n / given.n))
            END AS share
        FROM given
        LEFT JOIN noise_outputs AS outputs USING (number)
    ),
    taken AS (
        SELECT
            number,
            max(if(is_like, if(is_float OR differs, taken, NULL), 1)) AS largest,
            max(if(is_float AND is_like, unseen, 0)) AS unseen,
            max(if(is_float AND is_like, unseen * sqrt(n), 0)) AS unseen_by_norm,
            sqrt(
                ordered_sum(
                    (if(is_float, greatest(taken, unseen, if(share > 100, last_digit, 0), if(is_moved, 1, 0)), NULL) * share) ** 2
                )
            ) AS summed,
            bool_and(is_like AND NOT is_masked) AS is_summable,
            bool_or(is_hidden) AS is_hidden,
            bool_or(is_computed) AS is_computed,
            max(n) AS n,
            -- of what is worked on, not of a weight beside it
            max_by(if(is_periodic(api), greatest(magnitude, norm / sqrt(n)), magnitude), (n, magnitude)) FILTER (
                WHERE is_float AND isfinite(magnitude)
            ) AS magnitude,
            max(magnitude / smallest) AS range
        FROM weighed
        GROUP BY number
    ),
    -- apart, since a window sorts all columns that it passes on
    earlier AS (
        SELECT
            number,
            max(taken_out) FILTER (WHERE direction <> 'parameters_grad')
            OVER (ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS error
        FROM noise_outputs
        JOIN noise_ops USING (number)
    ),
    -- a choice outside that flipped exchanges rows of what comes backwards, which shows where a term that was added to all
    -- members of a batch gets their sum
    exchanged AS (
        SELECT count(*) > 0 AS are_rows_exchanged
        FROM noise_makers AS m
        JOIN noise_ops AS o USING (number)
        WHERE writes_at(o.api) AND m.is_source AND NOT m.is_float AND m.differs
    ),
    known AS (
        SELECT
            o.number,
            taken.magnitude,
            taken.range,
            coalesce(
                if(
                    is_summable AND larger_norm > 0 AND NOT outputs.is_masked AND (is_sum(api) OR is_reduction(api)),
                    summed,
                    CASE
                        WHEN has_steps(api) THEN greatest(largest, taken.unseen)
                        -- of probabilities, both extremes of which stay, it may pick those that differ
                        WHEN o.rounding = 'exact' THEN greatest(largest, taken.unseen_by_norm)
                        ELSE largest
                    END
                ),
                if(recorded.target_seq IS NOT NULL, 0, NULL)
            ) AS error_taken,
            unseen.target_seq IS NOT NULL OR taken.is_hidden OR (taken.is_computed AND o.rounding = 'exact') AS is_unseen,
            coalesce(normalising.error, if(taken.is_hidden, NULL, traced.error), earlier.error) AS error_before,
            traced.parameter_error,
            are_rows_exchanged AND o.direction = 'backward' AND is_sum(api) AND outputs.least_n < taken.n AS is_exchanged
        FROM noise_outputs AS outputs
        JOIN noise_ops AS o USING (number)
        CROSS JOIN exchanged
        JOIN earlier USING (number)
        LEFT JOIN taken USING (number)
        LEFT JOIN traced USING (number)
        LEFT JOIN normalising USING (number)
        LEFT JOIN recorded ON recorded.target_seq = o.target_seq
        LEFT JOIN unseen ON unseen.target_seq = o.target_seq
    )
SELECT
    number,
    coalesce(
        greatest(
            error_taken,
            if(error_taken IS NULL OR is_unseen, error_before, NULL),
            parameter_error,
            if(is_exchanged, 1, NULL)
        ),
        1
    ) AS error,
    magnitude,
    range
FROM known
