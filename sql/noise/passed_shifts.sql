-- passed_shifts: how the norm moves in each op that passes on the norm of what it takes: an activation, or a backward op.
-- grain: one op
-- parameters: the tables noise_ops, noise_leaves, noise_makers, noise_errors, noise_shifts, noise_floors and noise_repeat; the
--   variable is_first_step
-- The columns are those of noise/shifts. An error with the same sign in all elements, as of a kernel that is off by a
--   thousandth, moves a norm by its own size, while rounding moves it by a √n-th of its own.
-- shift: how much the norm moves beyond what came in. An activation passes on the shift of its input, or a part of it, where
--   it is not flat, and what the mean of its input moves by. A gradient has the shift of the gradient that came in, that of a
--   product also the shift of the factor that it is multiplied by. A backward op may return several gradients: the one that
--   stands out furthest counts
-- usual: the median shift of its kind and slot, from five members on; else 0. Inputs cut to fewer bits make every product
--   smaller, so fewer products are held against those of the forward pass; in 16 bits nothing is cut
-- unit: as in noise/shifts: the spread of its kind; the effect of independent errors on a norm; a tenth of the shifts that
--   came in, forwards and backwards; a gradient that went to another element; after a step of the optimizer a tenth of the
--   input error; in 16 bits half of the square of twice the independent errors; what is left of golden's error beside a
--   repeat; the precision of the statistics
-- The input error bounds the independent errors; that of a normalisation counts by what small deviations make of it. What
--   a factor leaves of the statistics shows them, if the op neither has a kink, at which elements appear as a whole, nor takes
--   a mean away, as a softmax does: in a product or an activation what it leaves of all that was taken and given, half as much
--   again; from three members on, or five where terms cancel, at most three times what it leaves of max and min of the result. A factor that came into a
--   product goes out as it is, so only what it leaves may be uneven. The gradient of a product whose terms cancel errs by the
--   norm that it would have if they did not, and so does what a factor with zeros leaves of a gradient. The gradient of a
--   softmax is p (g − Σ p g): its errors count by what is left of it beside the largest p times g. A log_softmax is
--   x − ln Σ eˣ: its mean has the error of the mean of x, and of one number for each row, which a factor of x moves by the
--   factor times the largest x at most
WITH
    tensors AS (
        SELECT
            o.number,
            o.kind,
            o.call_key,
            o.golden_seq,
            o.api,
            o.phase,
            o.rounding = 'matmul' AND NOT regexp_matches(o.api, '(?i)lstm|gru|rnn') AS is_product,
            is_product AND NOT is_attention(o.api) AS is_one_product,
            l.row,
            l.slot,
            l.is_input,
            l.n,
            l.width,
            l.magnitude,
            l.scatter,
            CASE
                WHEN l.error = 0 THEN 0
                WHEN l.is_measured THEN sqrt(greatest(l.error ** 2 - l.shift ** 2, 0))
                ELSE sqrt((2 * l.scatter ** 2 + l.left_of_mean ** 2) / 3)
            END AS left_over,
            l.golden_norm,
            l.golden_mean,
            l.rounding,
            l.spacing,
            l.shift,
            l.target_mean - l.golden_mean AS mean_moved
        FROM noise_leaves AS l
        JOIN noise_ops AS o USING (number)
        WHERE
            l.shift IS NOT NULL
            AND l.role IN ('input', 'output')
            AND o.is_leaf
            AND o.phase <> 'optimizer'
    ),
    incoming AS (
        SELECT
            number,
            count(*) AS inputs,
            arg_max(shift, (golden_norm, -row)) AS brought,
            arg_max(n, (golden_norm, -row)) AS n,
            max(left_over) AS left_over,
            max(magnitude) AS magnitude,
            max(golden_norm) AS norm,
            any_value(mean_moved) AS mean_moved
        FROM tensors
        WHERE is_input
        GROUP BY number
    ),
    -- what the forward op took and gave
    kept AS (
        SELECT
            call_key,
            max(abs(shift)) AS shift,
            max(left_over) AS left_over,
            max(magnitude) FILTER (WHERE NOT is_input) AS magnitude
        FROM tensors
        WHERE phase = 'forward'
        GROUP BY call_key
    ),
    -- the factors of a product are its largest inputs: two, or query, key and value
    factors AS (
        SELECT
            call_key,
            regexp_extract(slot, '\d+') AS place,
            shift,
            golden_norm,
            n,
            count(*) OVER (PARTITION BY number, n) = 1 AS is_alone
        FROM tensors
        WHERE phase = 'forward' AND is_input AND (is_product OR regexp_matches(api, '(?i)mul')) AND NOT is_addend(api, slot)
        QUALIFY row_number() OVER (PARTITION BY number ORDER BY n DESC, row) <= if(is_attention(api), 3, 2)
    ),
    -- what the gradient of a factor, which has its size, is multiplied by: the gradients of a product and its bias come in
    -- another order than what it takes (torch.addmm)
    multiplied AS (
        SELECT
            own.call_key,
            own.place,
            if(own.is_alone, own.n, NULL) AS size,
            ordered_sum(other.shift) AS shift,
            max(other.golden_norm) AS norm,
            max(other.n) AS n,
            product(other.golden_norm / sqrt(other.n)) AS scale
        FROM factors AS own
        JOIN factors AS other ON other.call_key = own.call_key AND other.place <> own.place
        GROUP BY own.call_key, own.place, size
        UNION ALL
        -- a normalisation divides by the size of what it takes
        SELECT call_key, regexp_extract(slot, '\d+'), NULL, -shift, NULL, NULL, NULL
        FROM tensors
        WHERE phase = 'forward' AND is_input AND is_normalisation(api)
        QUALIFY row_number() OVER (PARTITION BY number ORDER BY n DESC, row) = 1
    ),
    -- a batch norm divides each channel by its deviation: where that is small, a channel errs as a whole
    channels AS (
        SELECT makers.number, min(norms.channels) AS channels
        FROM (SELECT number, unnest(target_makers) AS maker FROM noise_makers WHERE phase = 'forward' AND is_leaf) AS makers
        JOIN (
            SELECT number, min(n) FILTER (WHERE is_input AND n > 1) AS channels
            FROM tensors
            WHERE regexp_matches(api, '(?i)^(batch|instance)_?norm')
            GROUP BY number
        ) AS norms ON norms.number = makers.maker
        GROUP BY makers.number
    ),
    -- the largest of n normal numbers is about √(2 ln n) of their deviation, so norm and maximum tell how many elements
    -- matter
    passed AS (
        SELECT
            made.* EXCLUDE (shift, magnitude, n, spacing, left_over, mean_moved, golden_mean),
            -- in 16 bits extremes often agree by chance, and the mean tells more
            if(is_low_precision(made.spacing), made.left_over, made.scatter) AS own_error,
            brought,
            if(
                incoming.left_over IS NULL OR (made.phase = 'backward' AND kept.left_over IS NULL),
                NULL,
                1.5 * greatest(made.scatter, incoming.left_over, kept.left_over)
            ) AS left_over,
            CASE
                WHEN regexp_matches(api, '(?i)^log_softmax$') AND made.phase = 'forward'
                    THEN abs(brought) * incoming.magnitude * sqrt(made.n / made.width) / incoming.norm
                WHEN is_one_product THEN least(incoming.left_over, abs(brought))
                ELSE abs(brought) + coalesce(kept.shift, 0)
            END AS uneven,
            greatest((made.golden_norm / made.magnitude) ** 2, 1) AS largest_ones,
            -- where an attention averages many values, the rows of their gradient err together
            if(
                made.phase = 'backward' AND is_attention(api) AND regexp_extract(made.slot, '\d+') = '2',
                least(1, (made.golden_norm / incoming.norm) ** 2),
                1
            ) AS apart,
            -- a gradient of which one element is most picks a few of what it is multiplied by
            least(
                largest_ones, if(made.phase = 'backward', greatest((incoming.norm / incoming.magnitude) ** 2, 1), NULL)
            ) AS most_of_norm,
            greatest(1, apart * least(made.n, incoming.n, most_of_norm * (1 + 2 * ln(most_of_norm)), channels)) AS n,
            coalesce(multiplied.shift, 0) AS multiplied,
            -- where numbers grow by a little, an activation gives more of those above 0: the norm grows by the mean of what it
            -- gives, and twice as much where the function bends
            coalesce(2 * incoming.mean_moved * made.golden_mean * made.n / made.golden_norm ** 2, 0) AS brought_by_mean,
            made.golden_norm * least(1, 1 + made.shift) AS smaller_norm,
            CASE
                WHEN made.phase = 'backward' THEN made.shift - brought - coalesce(multiplied.shift, 0)
                WHEN regexp_matches(api, '(?i)^log_softmax$')
                    THEN
                        sign(made.mean_moved - incoming.mean_moved)
                        * greatest(0, abs(made.mean_moved - incoming.mean_moved) - abs(brought) * incoming.magnitude)
                        * sqrt(made.n) / made.golden_norm
                ELSE
                    made.shift
                    - least(
                        greatest(made.shift, least(brought, 0) + least(brought_by_mean, 0)),
                        greatest(brought, 0) + greatest(brought_by_mean, 0)
                    )
            END AS shift,
            CASE
                WHEN regexp_matches(api, '(?i)^softmax$') THEN greatest(1, coalesce(kept.magnitude, 1) * incoming.norm / made.golden_norm)
                WHEN regexp_matches(api, '(?i)^log_softmax$') AND made.phase = 'forward'
                    THEN sqrt(made.width) * incoming.norm / made.golden_norm
                -- that of what is added is a sum
                WHEN is_one_product AND made.phase = 'backward' AND multiplied.norm IS NULL AND made.n < incoming.n
                    THEN greatest(1, incoming.norm / made.golden_norm)
                -- zeros of a factor may leave little of a gradient, and so may attention to one element
                WHEN (is_multiplication(api) OR is_attention(api)) AND made.phase = 'backward' AND multiplied.scale > 0
                    THEN
                        greatest(
                            1,
                            incoming.norm * multiplied.scale / smaller_norm
                            / if(is_attention(api) AND smaller_norm > 1e-4 * incoming.norm * multiplied.scale, 100, 1)
                        )
                WHEN (is_product(api) OR regexp_matches(api, '(?i)^conv')) AND made.phase = 'backward'
                    THEN
                        coalesce(
                            greatest(
                                1,
                                incoming.norm * multiplied.norm / made.golden_norm
                                / greatest(1, (incoming.n * multiplied.n / made.n) ** 0.25 / 3)
                            ),
                            1
                        )
                ELSE 1
            END AS cancelled
        FROM tensors AS made
        JOIN incoming USING (number)
        LEFT JOIN channels USING (number)
        LEFT JOIN kept ON kept.call_key = made.call_key AND made.phase = 'backward'
        LEFT JOIN multiplied
            ON multiplied.call_key = made.call_key
            AND if(multiplied.size IS NULL, multiplied.place = regexp_extract(made.slot, '\d+'), multiplied.size = made.n)
            AND made.phase = 'backward'
        WHERE
            NOT made.is_input
            AND made.n >= 64
            -- what goes out as it came in, as of a product on a reshaped tensor, was not multiplied yet
            AND NOT (
                made.phase = 'backward'
                AND made.n = incoming.n
                AND made.golden_norm = incoming.norm
                AND made.magnitude = incoming.magnitude
                AND made.shift = brought
            )
            AND CASE
                WHEN made.phase = 'backward' THEN is_product OR made.n = incoming.n OR (is_activation(api) AND made.n = 2 * incoming.n)
                WHEN regexp_matches(api, '(?i)^log_softmax$') THEN made.n = incoming.n AND inputs = 1
                ELSE is_activation(api) AND made.n = incoming.n AND inputs = 1 AND made.golden_norm > 0.2 * incoming.norm
            END
    ),
    kinds AS (
        SELECT
            kind,
            slot,
            count(*) AS members,
            members >= 5 AS is_population,
            if(is_population, usual_shift(shift, true), 0) AS usual,
            if(is_population, 1.4826 * mad(shift), 0) AS spread,
            coalesce(median(scatter), 0) AS usual_scatter
        FROM passed
        GROUP BY kind, slot
    ),
    -- a product of few of its kind is held against those of other kinds in the forward pass: inputs cut to fewer bits make
    -- it smaller by as much, or by half of it or not at all, where one factor is not cut or the bias is most of it
    kin AS (
        SELECT median(shift) AS usual, kin_spread(shift) AS spread
        FROM noise_shifts
        JOIN noise_ops USING (number)
        WHERE rounding = 'matmul'
        HAVING count(*) >= 5
    ),
    explained AS (
        SELECT
            passed.*,
            kinds.* EXCLUDE (kind, slot, usual, spread),
            coalesce(kin.usual, kinds.usual) AS usual,
            coalesce(kin.spread, kinds.spread) AS spread,
            error_in,
            spacing,
            condition,
            relocated,
            coalesce(replaced, 0) AS replaced,
            if(is_normalisation(api) OR divides_gradients(api), condition, 1) * error_in AS magnified,
            greatest(
                if(is_low_precision(spacing), floor, 0),
                usual_scatter,
                CASE
                    WHEN has_kink(api) THEN magnified
                    WHEN is_one_product OR is_activation(api) OR regexp_matches(api, '(?i)^log_softmax$')
                        THEN least(magnified, left_over, if(members >= if(cancelled > 2, 5, 3), 3 * scatter, NULL))
                    -- of a few elements the extremes are most of the norm, and move with it
                    WHEN (is_product OR (is_normalisation(api) AND largest_ones >= 8)) AND members >= 3
                        THEN least(magnified, 3 * coalesce(own_error, magnified))
                    ELSE magnified
                END
            ) AS known_error
        FROM passed
        JOIN kinds USING (kind, slot)
        JOIN (SELECT number, error_in, spacing, condition, relocated FROM noise_errors) AS e USING (number)
        LEFT JOIN (SELECT golden_seq, replaced FROM noise_repeat) AS repeats USING (golden_seq)
        CROSS JOIN (SELECT floor FROM noise_floors WHERE rounding = 'other') AS others
        LEFT JOIN kin ON NOT is_population AND is_one_product AND NOT is_low_precision(spacing)
        WHERE
            (is_population OR NOT is_product OR is_low_precision(spacing) OR kin.usual IS NOT NULL)
            -- a normalisation that divides by next to nothing leaves no digit sure, nor does an attention with large scores
            AND NOT ((is_normalisation(api) OR is_attention(api)) AND condition * error_in > 0.5)
    ),
    measured AS (
        SELECT
            number,
            row,
            kind,
            slot,
            has_kink(api) AS has_kink,
            shift,
            usual,
            shift_unit(
                spread,
                cancelled * known_error,
                n,
                -- groups shift by as much more as their deviation is smaller
                0.1 * (cancelled * uneven + abs(multiplied)) * if(is_normalisation(api), condition, 1),
                if(getvariable('is_first_step'), 0, 0.1) * error_in
                + relocated
                -- what is independent of the elements makes their norm larger by half of its square, which tells in 16 bits
                + if(is_low_precision(spacing), 2 * greatest(known_error, coalesce(own_error, 0)) ** 2, 0)
                -- an element that noise moves over the kink appears or vanishes
                + if(has_kink(api) AND phase = 'backward' AND error_in > 0, 0.125 / largest_ones, 0),
                replaced,
                rounding
            ) AS bound,
            members
        FROM explained
    ),
    calibrated AS (
        SELECT
            number,
            row,
            shift,
            usual,
            moved_from(shift, usual, bound) AS moved,
            bound * calibration(
                max(moved / bound) OVER (
                    PARTITION BY kind, slot ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW
                ),
                if(has_kink, 0, members - 1)
            ) AS unit,
            members
        FROM measured
    )
SELECT
    number,
    shift,
    usual,
    unit,
    moved / unit / 2 - 1 AS score,
    members - 1 AS members,
    false AS is_law
FROM calibrated
QUALIFY row_number() OVER (PARTITION BY number ORDER BY score DESC, row) = 1
