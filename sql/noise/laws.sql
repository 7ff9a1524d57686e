-- laws: how far the mean or the norm of what an op gives is from where a law has it that golden's obeys.
-- grain: one op that obeys a law in golden
-- parameters: the tables noise_ops, noise_leaves, noise_errors and noise_floors
-- Laws hold in exact arithmetic between what an op took and what it gave, whatever errors came in, and its own rounding hardly
--   breaks them. What moves, adds or averages keeps the mean or the total, which is the mean times the number of elements. All
--   gradients together have the total of the gradient that came in, that of a bias has it alone. Gradients of a softmax and of
--   a normalisation cancel. Golden obeys if it does within the rounding of its dtype; few digits say little of that, so in 16
--   bits gradients tell nothing. Where tensors are centred golden may obey by chance, so of the laws that it obeys the one
--   counts that the target breaks least.
-- A normalisation gives the norm of its weight and bias. How far golden's result is from that, since the epsilon counts or weights
--   differ, is how much of an error that came in may show. Where the epsilon, 1e-5 as a rule, takes off more than it would if
--   all rows or channels varied alike, one may hardly vary, and an error is a larger part of it: if it is one alone, its
--   variance is the epsilon for what it lacks of one.
-- The columns are those of noise/shifts; shift and unit are relative to the root mean square of the result, of the larger one
--   where one is only what rounding left.
-- shift: how much further the target is from the law than golden. An op may give several results: the one that stands out
--   furthest counts
-- let_through: how far an error that came into a normalisation may move its norm, NULL for other ops
-- unit: what rounding explains: independent errors of what is added and of the result, which move a mean of n elements by
--   a √n-th of theirs; the precision of the statistics; how far golden's rounding takes it, as many times as the target rounds
--   more. What is rounded to the nearest spacing errs by about a quarter of it
WITH
    apis AS (
        SELECT
            api,
            keeps_total(api) AS keeps,
            spreads_gradient(api) AS picks,
            keeps OR picks AS spreads,
            sums_to_zero(api) AS cancels,
            is_normalisation(api) AS normalises,
            cancels OR is_product(api) AS has_bias,
            regexp_matches(api, '(?i)sub') AS subtracts
        FROM (SELECT DISTINCT api FROM noise_ops)
    ),
    ops AS (
        SELECT
            number,
            phase,
            if(phase = 'forward', keeps, spreads) AS keeps,
            phase = 'backward' AND picks AS picks,
            subtracts,
            phase = 'backward' AND cancels AS cancels,
            phase = 'forward' AND normalises AS normalises
        FROM noise_ops
        JOIN apis USING (api)
        WHERE
            side = 'pair'
            AND is_leaf
            AND op_kind <> 'module'
            AND phase <> 'optimizer'
            AND if(phase = 'forward', keeps OR normalises, spreads OR has_bias)
    ),
    tensors AS MATERIALIZED (
        SELECT
            o.* EXCLUDE (keeps, cancels),
            l.row,
            l.is_input,
            l.n,
            -- in 16 bits elements that are nearly equal round alike
            if(is_low_precision(l.spacing) AND l.smallest > (1 - 8 * l.spacing) * l.magnitude, 1, l.n) AS independent_n,
            l.target_mean,
            l.golden_mean,
            l.target_norm,
            l.golden_norm AS norm,
            greatest(l.golden_norm, l.target_norm) / sqrt(l.n) AS size,
            l.golden_norm / sqrt(l.n) AS golden_size,
            l.spacing,
            l.rounding,
            l.is_paired AND l.is_like AND NOT l.is_masked AND l.target_mean + l.golden_mean IS NOT NULL AS is_known,
            l.n = l.width AS is_vector,
            o.keeps AND (o.phase = 'forward' OR NOT is_low_precision(l.spacing)) AS keeps,
            o.phase = 'backward' AND is_vector AND NOT is_low_precision(l.spacing) AS is_bias,
            o.cancels AND NOT is_low_precision(l.spacing) AS cancels
        FROM noise_leaves AS l
        JOIN ops AS o USING (number)
        WHERE l.is_float AND l.role IN ('input', 'output')
    ),
    taken AS (
        SELECT
            number,
            ordered_sum(n * target_mean) AS target_total,
            ordered_sum(n * golden_mean) AS golden_total,
            ordered_sum(target_mean) AS target_sum,
            ordered_sum(golden_mean) AS golden_sum,
            if(count(*) = 2, arg_min(target_mean, row) - arg_max(target_mean, row), NULL) AS target_difference,
            if(count(*) = 2, arg_min(golden_mean, row) - arg_max(golden_mean, row), NULL) AS golden_difference,
            sqrt(count(*)) * max(norm) AS norm,
            max(n) AS n,
            count(*) * max(size) AS sizes,
            count(*) * max(n * size) AS all_sizes
        FROM tensors
        WHERE is_input
        GROUP BY number
        HAVING bool_and(is_known)
    ),
    given AS (
        SELECT number, ordered_sum(n * target_mean) AS target_given, ordered_sum(n * golden_mean) AS golden_given
        FROM tensors
        WHERE NOT is_input AND phase = 'backward' AND keeps
        GROUP BY number
        HAVING bool_and(is_known) AND count(*) > 1
    ),
    laws AS (
        SELECT
            made.number,
            made.row,
            made.n,
            made.independent_n,
            made.spacing,
            made.rounding * (1 + greatest(sizes, all_sizes / made.n) / made.size) AS precision,
            1 + taken.norm / made.norm AS terms,
            (made.golden_mean - golden_side) / made.golden_size AS golden_shift,
            (made.target_mean - target_side - made.golden_mean + golden_side) / made.size AS shift
        FROM tensors AS made
        JOIN taken USING (number)
        LEFT JOIN given USING (number)
        CROSS JOIN LATERAL (
            VALUES
            (made.keeps OR made.is_bias, target_total / made.n, golden_total / made.n),
            -- what all results have together
            (
                made.keeps AND target_given IS NOT NULL,
                made.target_mean + (target_total - target_given) / made.n,
                made.golden_mean + (golden_total - golden_given) / made.n
            ),
            (made.keeps, target_sum, golden_sum),
            (made.subtracts, target_difference, golden_difference),
            (made.subtracts, -target_difference, -golden_difference),
            -- the gradient of what is subtracted
            (made.keeps AND made.subtracts, -target_total / made.n, -golden_total / made.n),
            (made.cancels AND NOT made.is_vector, 0.0, 0.0)
        ) AS of_op(is_law, target_side, golden_side)
        WHERE
            NOT made.is_input
            AND made.is_known
            AND made.golden_size > 0
            AND is_law
            -- of two values the other one, which takes no gradient, may be picked for some elements
            AND NOT (made.picks AND made.n <= taken.n AND given.number IS NULL)
    ),
    -- a normalisation gives each row or channel the norm of its weight and bias, its last vectors, or of ones
    weights AS (
        SELECT
            number,
            any_value(n) AS n,
            ordered_sum(target_norm ** 2) AS target_square,
            ordered_sum(norm ** 2) AS golden_square,
            -- what columns count by beside others
            sqrt(
                ordered_sum(
                    greatest(target_norm ** 2 / n - if(is_bias, 0, target_mean ** 2), norm ** 2 / n - if(is_bias, 0, golden_mean ** 2), 0)
                )
            ) AS uneven
        FROM (
            SELECT *, row_number() OVER backwards = 1 AND count(*) OVER (PARTITION BY number) > 1 AS is_bias
            FROM tensors
            WHERE normalises AND is_input AND is_vector
            WINDOW backwards AS (PARTITION BY number ORDER BY row DESC)
            QUALIFY row_number() OVER backwards <= 2
        )
        GROUP BY number
    ),
    normalised AS (
        SELECT number, max(size) AS size FROM tensors WHERE normalises AND is_input AND NOT is_vector GROUP BY number
    ),
    sized AS (
        SELECT
            made.number,
            made.row,
            made.n,
            made.spacing,
            made.rounding,
            -- in 16 bits a row or channel is scaled by a number that rounds
            if(is_low_precision(made.spacing), least(weights.n, made.n / weights.n), made.n) AS independent_n,
            coalesce(2 * uneven / sqrt(weights.n), 0) AS uneven,
            made.norm / sqrt(coalesce(made.n / weights.n * golden_square, made.n)) - 1 AS golden_shift,
            made.target_norm / sqrt(coalesce(made.n / weights.n * target_square, made.n)) - 1 - golden_shift AS shift,
            coalesce(greatest(weights.n, made.n / weights.n), made.n) AS most_rows,
            1e-5 AS usual_epsilon,
            -- what that takes off where all rows vary alike
            least(abs(golden_shift), coalesce(usual_epsilon / (2 * normalised.size ** 2), 0)) AS of_all_rows,
            abs(golden_shift) - of_all_rows AS of_one_row,
            least(1, error_in * greatest(1, normalised.size * sqrt(2 * of_one_row * most_rows / usual_epsilon))) AS error_in_row,
            2 * (of_all_rows * error_in + of_one_row * error_in_row) AS let_through
        FROM tensors AS made
        JOIN taken USING (number)
        JOIN (SELECT number, error_in FROM noise_errors) AS errors USING (number)
        LEFT JOIN weights USING (number)
        LEFT JOIN normalised USING (number)
        WHERE made.normalises AND NOT made.is_input AND made.is_known AND made.norm > 0
    ),
    obeyed AS (
        SELECT
            number,
            row,
            shift,
            NULL AS let_through,
            shift_unit(
                0,
                terms * greatest(floor, spacing / 4),
                independent_n,
                2 * greatest(1, floor / spacing) * golden_shift,
                0,
                0,
                precision
            ) AS unit
        FROM laws
        CROSS JOIN (SELECT floor FROM noise_floors WHERE rounding = 'other') AS others
        WHERE abs(golden_shift) <= greatest(terms * spacing / sqrt(n), precision)
        UNION ALL
        SELECT
            number,
            row,
            shift,
            let_through,
            shift_unit(uneven, greatest(floor, spacing / 4), coalesce(independent_n, 1), let_through, 0, 0, 2 * rounding)
        FROM sized
        CROSS JOIN (SELECT floor FROM noise_floors WHERE rounding = 'other') AS others
        WHERE abs(golden_shift) < 0.1 AND isfinite(shift)
    ),
    least_broken AS (
        SELECT number, row, arg_min({'shift': shift, 'let_through': let_through, 'unit': unit}, abs(shift) / unit) AS law
        FROM obeyed
        GROUP BY number, row
    ),
    furthest AS (
        SELECT number, arg_max(law, (abs(law.shift) / law.unit, -row)) AS law
        FROM least_broken
        GROUP BY number
    )
SELECT
    number,
    law.shift AS shift,
    0.0 AS usual,
    law.unit AS unit,
    abs(law.shift) / law.unit / 2 - 1 AS score,
    0 AS members,
    true AS is_law,
    law.let_through AS let_through
FROM furthest
