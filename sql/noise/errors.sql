-- errors: the input error and the output error of each op.
-- grain: one op of noise_ops that has a float output with a known error
-- parameters: the tables noise_leaves, noise_ops and noise_makers; the variable is_first_step
-- error_in: the largest upper error of its inputs, 1 for an input of another shape. In a sum, inputs count by their
--   size relative to the output: the norm of the side where it is larger, since golden's may be 0. What is added to many
--   elements counts in each. A backward op also uses the inputs and outputs of its forward op. After an optimizer step a
--   parameter may differ in few elements only, which its statistics show from √n roundings on. Behind a normalisation that
--   hides it, a tenth of what went in there; behind the backward op of an activation, what went in there.
--   Inputs of a sum, which may cancel, of a function with steps, and of an op that only picks elements err by the precision
--   of their statistics, unless those are equal to the last bit. If less than a hundredth of the terms is left, what was
--   computed errs by half a spacing all the same, which no statistic shows. So does the gradient of a function of each
--   element that is flat where what comes in is large: what is left errs by what came in times the largest slope (flattened,
--   of which usual functions have 3).
-- relocated: how far a gradient errs if noise picked another element as the largest in a maximum, here or before
-- magnitude: the largest magnitude of its largest output
-- error_out, lower_out, extreme_out: the largest error of its float outputs, the largest lower error, and the furthest that one
--   of their extremes moves
-- condition: how much the op magnifies a relative error of its input: exponentials and waves see it as an absolute error, so
--   by the largest magnitude of the input (N. J. Higham, Accuracy and Stability of Numerical Algorithms, §1.6: |x f'(x) /
--   f(x)|). A logarithm makes an absolute error of it, so it magnifies by the inverse of a result below 1, and an error of
--   its smallest element, which may be that of the largest, by the ratio of both; so does its gradient. Where it is infinite
--   at 0, its largest finite extreme tells. The logarithm of a factorial, whose slope is less than ln x where that is more
--   than 1, has few digits near 1 and 2. A matrix product whose terms cancel magnifies by the norm that it would have if they
--   did not, √K · rms(A) · rms(B), over the norm that it has (ibid., §3.5: |fl(C) − C| ≤ γₖ |A| |B|). Where the elements of A
--   are nearly equal, as after a softmax, so are the rows of the product: they err together, and the norm and the mean show
--   √rows of that. Attention takes a softmax of scores, which sees their error as an absolute one: it counts by a quarter of
--   their size, forwards and backwards. A gradient of a softmax is p (g − Σ p g), of which little may be left beside p g. A
--   normalisation divides by the deviation of each channel or row. What its backward op makes of the largest element tells
--   the smallest of them: an error of what was normalised counts by that backwards, and where the result is taken
-- extreme_condition: how many times the rounding of its elements an extreme may move: by a few deviations, and in a matrix
--   product no further than if all of its terms were the largest ones (ibid.)
WITH
    leaves AS (
        SELECT l.*, o.api, o.module_key, o.call_key, o.op_kind, o.direction, o.is_leaf
        FROM noise_leaves AS l
        JOIN noise_ops AS o USING (number)
        WHERE l.is_paired
    ),
    -- what comes into each module, forwards and backwards
    reached AS (
        SELECT module_key, max(taken) AS error, max(golden_norm) FILTER (WHERE direction = 'backward') AS norm
        FROM leaves
        WHERE is_input AND is_float AND op_kind = 'module'
        GROUP BY module_key
    ),
    -- what comes into each backward op
    incoming AS (
        SELECT number, max(golden_norm) AS norm, max(n) AS n
        FROM leaves
        WHERE is_input AND is_float AND is_leaf AND direction = 'backward'
        GROUP BY number
    ),
    call_factors AS (
        SELECT
            number,
            call_key,
            regexp_extract(slot, '\d+') AS place,
            max(golden_norm / sqrt(n)) AS size,
            max(width) AS width,
            bool_or(multiplies OR place <> '2') AS is_multiplied,
            bool_or(NOT multiplies AND place <> '2') AS is_compared
        FROM leaves
        JOIN (
            SELECT api, is_multiplication(api) AS multiplies, picks_rows(api, 'input.0') AS attends
            FROM (SELECT DISTINCT api FROM noise_ops)
        ) AS apis USING (api)
        WHERE is_input AND is_float AND direction = 'forward' AND (multiplies OR (attends AND slot IN ('input.0', 'input.1', 'input.2')))
        GROUP BY number, call_key, place
    ),
    -- what the gradient of a factor is multiplied by, or that of a query or a key of attention
    multipliers AS (
        SELECT own.call_key, own.place, product(other.size) AS size
        FROM call_factors AS own
        JOIN call_factors AS other ON other.call_key = own.call_key AND other.place <> own.place
        WHERE own.is_multiplied
        GROUP BY own.call_key, own.place
    ),
    -- A gradient of fewer elements is a sum over what comes in backwards, beside which little of it may be left. The gradient
    -- of a softmax or a normalisation is what comes in less its mean: of a softmax over one element nothing is left. A module
    -- in which no op was recorded may be either, as one that gives a weight its norm. Zeros of a factor leave little of one,
    -- too, and so does attention to one element.
    put_out AS (
        SELECT
            leaves.* EXCLUDE (error, lower, upper, taken),
            coalesce(
                CASE
                    WHEN role = 'parameters_grad' THEN least(1, golden_norm / nullif(reached.norm, 0))
                    WHEN leaves.n < incoming.n THEN least(1, golden_norm / nullif(incoming.norm, 0))
                    WHEN regexp_matches(api, '(?i)softmax|normalize') OR is_normalisation(api) OR (op_kind = 'module' AND is_leaf)
                        THEN least(1, 100 * greatest(target_norm, golden_norm) / nullif(incoming.norm, 0))
                    WHEN multipliers.size > 0
                        THEN
                            least(
                                1,
                                -- where one run has next to nothing, the other has what it rounded
                                if(least(target_norm, golden_norm) < 1e-4 * incoming.norm * multipliers.size, 1, 100)
                                * greatest(target_norm, golden_norm)
                                / nullif(incoming.norm * multipliers.size, 0)
                            )
                END,
                1
            ) AS share,
            leaves.error * share AS error,
            leaves.lower * share AS lower,
            leaves.upper * share AS upper,
            leaves.taken * share AS taken
        FROM leaves
        LEFT JOIN reached ON reached.module_key = leaves.module_key
        LEFT JOIN incoming ON incoming.number = leaves.number
        LEFT JOIN multipliers
            ON multipliers.call_key = leaves.call_key
            AND multipliers.place = regexp_extract(leaves.slot, '\d+')
            AND leaves.direction = 'backward'
        WHERE role IN ('output', 'parameters_grad') AND is_float
    ),
    outputs AS (
        SELECT
            number,
            max(error) AS error_out,
            max(lower) AS lower_out,
            max(upper) AS upper_out,
            max(taken) AS taken_out,
            max(extreme) AS extreme_out,
            max(golden_norm) AS norm,
            max(greatest(target_norm, golden_norm)) AS larger_norm,
            max(spacing) AS spacing,
            max(n) AS n,
            max_by(magnitude, n) AS magnitude,
            bool_or(is_masked) AS is_masked
        FROM put_out
        GROUP BY number
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
            -- the last digit of what was computed, which no statistic may show
            if(m.is_source OR leaves.is_measured, 0, leaves.spacing / 2) AS last_digit,
            greatest(
                leaves.taken,
                if(
                    (m.is_parameter OR m.is_trained)
                    AND leaves.is_float
                    AND NOT leaves.is_measured
                    AND NOT getvariable('is_first_step'),
                    sqrt(leaves.n) * leaves.rounding,
                    NULL
                )
            ) AS taken
        FROM leaves
        LEFT JOIN noise_makers AS m USING (row)
        WHERE leaves.is_input
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
    -- but what an earlier op made, and was compared there, errs as it does there
    traced AS (
        SELECT o.number, first(made.error ORDER BY alone.n DESC, alone.target_row) AS error
        FROM alone
        JOIN noise_ops AS o ON o.target_seq = alone.target_seq AND o.side = 'pair'
        LEFT JOIN (
            SELECT target_key, min(number) AS number, arg_min(taken, number) AS error
            FROM noise_leaves
            WHERE NOT is_input AND is_paired AND target_key IS NOT NULL
            GROUP BY target_key
        ) AS made ON made.target_key = alone.key AND made.number < o.number
        GROUP BY o.number
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
        LEFT JOIN outputs USING (number)
    ),
    inputs AS (
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
            -- of what is worked on, not of a weight beside it
            max_by(magnitude, (n, magnitude)) FILTER (WHERE is_float AND isfinite(magnitude)) AS magnitude,
            max(magnitude / smallest) AS range
        FROM weighed
        GROUP BY number
    ),
    -- the two factors of a matrix product: its largest inputs, of which the first ends in the dimension that is summed over
    factors AS (
        SELECT
            number,
            first(width ORDER BY row) AS terms,
            first((golden_mean * sqrt(n) / golden_norm) ** 2 ORDER BY row) AS evenness,
            first(height ORDER BY row) AS rows_together,
            product(golden_norm / sqrt(n)) AS size,
            product(magnitude) AS largest_term
        FROM (
            SELECT number, row, width, height, golden_norm, golden_mean, magnitude, n
            FROM leaves
            WHERE
                is_float
                AND is_input
                AND NOT is_masked
                AND direction = 'forward'
                AND is_product(api)
                AND NOT is_addend(api, slot)
                AND golden_norm > 0
            QUALIFY row_number() OVER (PARTITION BY number ORDER BY n DESC, row) <= 2
        )
        GROUP BY number
        HAVING count(*) = 2
    ),
    -- how large the scores of an attention are: a softmax of large ones picks one element, and has few digits
    scores AS (
        SELECT number, product(size) * sqrt(max(width)) AS size
        FROM call_factors
        WHERE is_compared
        GROUP BY number
        HAVING count(*) = 2
    ),
    -- apart, since a window sorts all columns that it passes on
    earlier AS (
        SELECT
            number,
            max(taken_out) FILTER (WHERE direction <> 'parameters_grad')
            OVER (ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS error
        FROM outputs
        JOIN noise_ops USING (number)
    ),
    -- apart, because a name that is used in the same SELECT stands for its expression again
    measured AS (
        SELECT
            o.number,
            o.call_key,
            o.module_key,
            o.direction,
            o.phase,
            o.api,
            error_out,
            lower_out,
            upper_out,
            taken_out,
            extreme_out,
            spacing,
            n,
            is_normalisation(o.api) AS is_normalisation,
            coalesce(outputs.is_masked, false) AS is_masked,
            regexp_matches(o.api, '(?i)relu|gelu|silu|swish|hardtanh|clamp|sigmoid|tanh|dropout')
            OR is_multiplication(o.api)
            OR coalesce(factors.terms = 1 AND factors.evenness > 0.999, false) AS is_passed_on,
            CASE
                WHEN
                    o.direction = 'forward'
                    AND regexp_matches(api, '(?i)^(sin|cos|tan|exp|exp2|expm1|softmax)_?$')
                    THEN greatest(coalesce(inputs.magnitude, 1), 1)
                WHEN o.direction = 'forward' AND regexp_matches(api, '(?i)^(lgamma|mvlgamma|digamma)_?$')
                    THEN
                        greatest(1, inputs.magnitude * ln(greatest(inputs.magnitude, exp(1))))
                        / coalesce(least(1, nullif(outputs.norm / sqrt(outputs.n), 0)), 1)
                WHEN o.direction = 'forward' AND regexp_matches(api, '(?i)^(log_softmax|logsumexp|logaddexp|log|log2|log10)_?$')
                    THEN
                        if(divides_gradients(api), coalesce(inputs.range, 1), greatest(coalesce(inputs.magnitude, 1), 1))
                        / coalesce(least(1, nullif(if(isfinite(outputs.norm), outputs.norm / sqrt(outputs.n), outputs.magnitude), 0)), 1)
                WHEN factors.size > 0 AND outputs.norm > 0
                    THEN
                        greatest(sqrt(factors.terms) * factors.size / (outputs.norm / sqrt(outputs.n)), 1)
                        * sqrt(1 + factors.evenness * (factors.rows_together - 1))
                ELSE 1
            END * greatest(1, coalesce(scores.size, 0) / 4) AS condition,
            factors.terms,
            factors.largest_term,
            inputs.magnitude,
            if(divides_gradients(o.api), inputs.range, NULL) AS range,
            outputs.magnitude / nullif(inputs.magnitude, 0) AS grown,
            outputs.magnitude AS made,
            outputs.norm AS norm_out,
            -- how many times larger what came in backwards was
            incoming_norm / coalesce(nullif(outputs.norm, 0), nullif(larger_norm, 0)) AS shrunk,
            coalesce(
                if(
                    is_summable AND larger_norm > 0 AND NOT outputs.is_masked AND (is_sum(api) OR is_reduction(api)),
                    summed,
                    CASE
                        WHEN has_steps(api) THEN greatest(largest, inputs.unseen)
                        -- of probabilities, both extremes of which stay, it may pick those that differ
                        WHEN o.rounding = 'exact' THEN greatest(largest, inputs.unseen_by_norm)
                        ELSE largest
                    END
                ),
                if(recorded.target_seq IS NOT NULL, 0, NULL)
            ) AS error_taken,
            unseen.target_seq IS NOT NULL OR inputs.is_hidden AS is_unseen,
            coalesce(if(inputs.is_hidden, NULL, traced.error), earlier.error) AS error_before
        FROM outputs
        JOIN noise_ops AS o USING (number)
        JOIN earlier USING (number)
        LEFT JOIN inputs USING (number)
        LEFT JOIN traced USING (number)
        LEFT JOIN factors USING (number)
        LEFT JOIN scores USING (number)
        LEFT JOIN (SELECT number, norm AS incoming_norm FROM incoming) AS incoming USING (number)
        LEFT JOIN recorded ON recorded.target_seq = o.target_seq
        LEFT JOIN unseen ON unseen.target_seq = o.target_seq
    ),
    known AS (
        SELECT
            * EXCLUDE (terms, largest_term, error_taken, is_unseen, error_before),
            least(
                getvariable('outright_factor') * condition,
                if(made > 0 AND terms > 0, greatest(1, terms * largest_term / made), NULL)
            ) AS extreme_condition,
            coalesce(greatest(error_taken, if(error_taken IS NULL OR is_unseen, error_before, NULL)), 1) AS own_error_in
        FROM measured
    ),
    saved AS (
        SELECT
            call_key,
            max(greatest(own_error_in, taken_out)) AS error,
            max(if(picks_rows(api, 'input.0'), condition, NULL)) AS condition,
            max(magnitude) AS magnitude,
            max(range) AS range,
            max(made) AS made
        FROM known
        WHERE phase = 'forward' AND direction = 'forward'
        GROUP BY call_key
    ),
    divided AS (
        SELECT call_key, greatest(max(known.grown * saved.magnitude), 1) AS condition
        FROM known
        JOIN saved USING (call_key)
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
    -- behind none of these, one or two
    carried AS (
        FROM taken
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
    -- statistics of what is normalised hardly show what differs in it, but ops behind it may: all but what was scaled. What
    -- is beside a mask may have any error that went in
    hidden AS (
        SELECT
            carried.number,
            max(made.own_error_in * coalesce(divided.condition, 1) * if(made.is_masked, 1, 0.1)) AS error
        FROM carried
        JOIN known AS made ON made.number = carried.maker AND (made.is_normalisation OR made.is_masked)
        LEFT JOIN divided ON divided.call_key = made.call_key
        WHERE made.own_error_in * coalesce(divided.condition, 1) > 10 * carried.upper
        GROUP BY carried.number
    ),
    handed_on AS (
        SELECT number, unnest(target_makers) AS maker
        FROM noise_makers
        WHERE phase = 'backward' AND is_leaf AND is_float
    ),
    -- a gradient that an activation passes on errs as it did before it, though its statistics may agree by chance
    passed AS (
        SELECT handed_on.number, max(made.own_error_in) AS error
        FROM handed_on
        JOIN known AS made
            ON made.number = handed_on.maker AND made.direction = 'backward' AND is_passed_on AND own_error_in < 1
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
        own_error_in,
        if(known.direction = 'backward', flattened * greatest(own_error_in, if(flattened > 100, spacing / 2, 0)), NULL),
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
    CASE
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
