-- shifts: how the norm moves in each matrix product and normalisation, beside others of its kind.
-- grain: one normalisation or softmax, or one matrix product, in the forward pass, unless it is several products of a
--   kind with fewer than five members. A normalisation may be a module in which no op was recorded; between two
--   programs, of which one may compute it in one op and the other in several, any module of such a class in which no op
--   normalises
-- parameters: the tables paired, noise_ops, noise_leaves, noise_makers, noise_errors, noise_floors, noise_laws and
--   noise_repeat; the variables is_first_step and cross_framework
-- An error with the same sign in all elements moves a norm by its own size, independent errors by a √n-th of theirs. So
--   a norm shows a kernel whose error is below the rounding of its elements. Inputs cut to fewer bits shift a product
--   too, but equally in all ops of a kind.
-- shift: how much the norm of the output moves, relative to itself and beyond the norms of its inputs; a normalisation
--   removes the shift of its inputs. What is added to a product has its share of the square of the norm, and does not shift
--   with the factors. The rows of a softmax sum to one whatever its input, so its mean is used instead.
-- usual: the median shift of its kind (macros/usual_shift), half of it where one factor loses nothing if it is cut; 0
--   for a small number of normalisations, for products in 16 bits, where nothing is cut, where it is more than cut
--   factors make, and for a product alone, of which only growing counts. Behind a defect all ops of the kind may shift,
--   so the ops of the kind that came before tell, too, once there are five; of the two views the one in which the op
--   stands out further
-- unit: the deviation from the usual that rounding explains: the spread of its kind (in 16 bits also of the last eight),
--   the effect of independent errors (the usual ones of its kind, what the op makes of those of its inputs, or its own,
--   up to three times as much) on a norm, a tenth of the shift of the inputs (a hundredth in a normalisation and what it
--   lets through, more in a product whose terms cancel), what is left of golden's error beside a repeat, and the
--   precision of the statistics. An input of few elements brings few independent errors, and where an attention averages
--   many values, its rows err together, also where they are taken. Weights of a normalisation scale its result by their
--   mean error. After a step of the optimizer errors are not independent, so also a tenth of the input error, and half
--   of that of the other factor, as of the queries and keys that one step has turned towards each other
-- is_law: the shift is 0 whatever the input error
-- score: the deviation in double units, less one
WITH
    -- modules of which the normalisation in them tells
    holding AS (
        SELECT parent FROM noise_ops WHERE side = 'pair' AND is_leaf AND parent IS NOT NULL AND is_normalisation(api)
    ),
    leaves AS (
        SELECT
            o.number,
            o.kind,
            regexp_matches(o.api, '(?i)^softmax$') AS is_softmax,
            is_softmax OR is_normalisation(o.api) AS is_normalisation,
            -- recurrences and attention with its projections are several products, each of which cut inputs make smaller
            NOT regexp_matches(o.api, '(?i)lstm|gru|rnn|multi_?head') AND NOT (l.is_input AND l.is_bounded) AS is_one_product,
            l.is_input,
            o.op_kind = 'module' AND l.is_input AND l.role = 'input' AS is_taken_by_module,
            is_attention(o.api) AND NOT regexp_matches(o.api, '(?i)multi_?head') AS is_attention,
            l.is_input AND is_addend(o.api, l.slot) AS is_added,
            regexp_matches(o.api, '(?i)^b?add') AS may_scale,
            l.is_input AND NOT is_added AND NOT picks_rows(o.api, l.slot) AS is_factor,
            -- written numbers as those of a filter, which lose nothing where others are cut
            is_factor AND (l.is_bounded OR (has_few_bits(l.magnitude) AND has_few_bits(l.smallest))) AS is_uncut,
            -- numbers of one size lose alike if they are cut, as much as that size says and not what others lose on average;
            -- of what ends at one, or at a number with either sign, as sines and grids do, nothing tells how many elements
            -- have few digits, nor how few numbers it repeats
            is_factor AND (l.smallest > 0.75 * l.magnitude OR l.is_bounded OR l.is_mirrored) AS loses_otherwise,
            -- a batch norm may round the mean of a channel to 16 bits, and all elements of the channel err together, as do those of
            -- what a convolution makes of it
            CASE
                WHEN NOT is_low_precision(l.spacing) THEN NULL
                WHEN l.is_input AND l.n > 1 AND regexp_matches(o.api, '(?i)batch|instance') THEN l.n
                WHEN NOT l.is_input AND regexp_matches(o.api, '(?i)conv(_?transpose)?[23]d') THEN l.n / (l.width * l.height)
            END AS channels,
            l.n,
            l.error,
            is_normalisation AND l.is_input AND l.n = l.width AS is_weight,
            l.has_zeros,
            l.scatter,
            l.golden_norm,
            l.rounding,
            CASE
                WHEN is_softmax AND NOT l.is_input AND l.golden_mean <> 0
                    THEN (l.target_mean - l.golden_mean) / l.golden_mean
                ELSE l.shift
            END AS moved
        FROM noise_leaves AS l
        JOIN noise_ops AS o USING (number)
        WHERE
            l.shift IS NOT NULL
            AND o.phase = 'forward'
            AND (
                o.is_leaf
                OR (o.op_kind = 'module' AND getvariable('cross_framework') <> 0 AND o.op NOT IN (FROM holding))
            )
            AND (is_normalisation OR (o.rounding = 'matmul' AND o.op_kind <> 'module'))
    ),
    epsilons AS (
        SELECT number, max(golden_number) AS epsilon
        FROM paired
        JOIN noise_ops USING (golden_seq)
        WHERE role = 'input' AND golden_number > 0 AND is_epsilon(api, golden_slot)
        GROUP BY number
    ),
    ops AS (
        SELECT
            number,
            kind,
            is_softmax,
            is_normalisation,
            bool_and(is_one_product) AS is_one_product,
            max(golden_norm / sqrt(n)) FILTER (WHERE is_added) / max(golden_norm / sqrt(n)) FILTER (WHERE NOT is_input) AS added,
            -- what is larger than the result is scaled first, or not taken at all, or cancels: then the product tells nothing
            if(added >= 1.1 AND bool_or(may_scale), 1, greatest(0, 1 - coalesce(added, 0) ** 2)) AS share,
            1 - count(*) FILTER (WHERE is_uncut) / 2 AS cut,
            coalesce(bool_or(loses_otherwise), false) AS loses_otherwise,
            share * coalesce(sum(moved) FILTER (WHERE is_factor), 0)
            + (1 - share) * coalesce(max(moved) FILTER (WHERE is_added), 0) AS brought,
            max_by(moved, golden_norm) FILTER (WHERE NOT is_input) AS whole_shift,
            whole_shift - if(is_normalisation, 0, brought) AS shift,
            if(share > 0.5, shift / share, NULL) AS product_shift,
            max_by(n, golden_norm) FILTER (WHERE NOT is_input) AS n,
            max_by(scatter, golden_norm) FILTER (WHERE NOT is_input) AS scatter,
            max_by(n, error) FILTER (WHERE is_input AND error > 0) AS n_in,
            min(channels) AS channels,
            if(
                bool_or(is_attention),
                least(1, (max(golden_norm) FILTER (WHERE NOT is_input) / max(golden_norm) FILTER (WHERE is_factor)) ** 2),
                1
            ) AS apart,
            coalesce(list_extract(max(error, 2) FILTER (WHERE is_factor AND error > 0), 2), 0) AS second_error,
            -- zeros of one factor may hide most of what another consists of, and leave what errs
            if(
                bool_or(has_zeros) FILTER (WHERE is_factor),
                coalesce(max(error) FILTER (WHERE is_factor AND NOT has_zeros AND abs(moved) < error / 3), 0),
                0
            ) AS hidden_error,
            -- weights that err scale what a normalisation gives
            coalesce(max(error / sqrt(n)) FILTER (WHERE is_weight), 0) AS weights_error,
            max(rounding) AS rounding,
            -- where the deviation is next to the epsilon, 1e-5 as a rule, a normalisation lets the rest of a shift through
            coalesce(any_value(epsilon), 1e-5) AS added_to_variance,
            max_by(golden_norm ** 2 / n, n) FILTER (WHERE is_factor) AS variance,
            -- what it gives tells how much of the variance is epsilon, as in channels that hardly vary
            1 - max_by(golden_norm ** 2 / n, n) FILTER (WHERE NOT is_input)
            / coalesce(min(golden_norm ** 2 / n) FILTER (WHERE is_weight AND golden_norm > 0), 1) AS missing_variance,
            if(
                is_softmax, 0, greatest(added_to_variance / (added_to_variance + variance), coalesce(missing_variance, 0))
            ) AS let_through
        FROM leaves
        LEFT JOIN epsilons USING (number)
        GROUP BY number, kind, is_softmax, is_normalisation
        -- a module that takes more does more than its class says
        HAVING count(*) FILTER (WHERE NOT is_input) > 0 AND count(*) FILTER (WHERE is_taken_by_module) <= 1
    ),
    -- what takes the rows of an attention that averages many values
    averaged AS (
        SELECT makers.number, min(ops.apart) AS apart
        FROM (SELECT number, unnest(target_makers) AS maker FROM noise_makers WHERE phase = 'forward' AND is_leaf) AS makers
        JOIN ops ON ops.number = makers.maker AND ops.apart < 1
        GROUP BY makers.number
    ),
    kinds AS (
        SELECT
            kind,
            count(*) AS members,
            members >= 5 AS is_population,
            if(is_population, coalesce(usual_shift(product_shift, cut = 1 AND NOT loses_otherwise), median(shift)), 0) AS usual,
            if(is_population, 1.4826 * coalesce(mad(product_shift), mad(shift)), 0) AS spread,
            median(error_out) AS error_out,
            median(scatter) AS usual_scatter
        FROM ops
        JOIN noise_errors USING (number)
        GROUP BY kind
        HAVING is_population OR bool_and(is_normalisation OR (is_one_product AND is_low_precision(spacing)))
    ),
    -- few members may lie together by chance
    before AS (
        SELECT
            number,
            count(*) OVER earlier AS members,
            true AS is_population,
            coalesce(median(product_shift) OVER earlier, median(shift) OVER earlier) AS usual,
            -- in 16 bits errors grow from layer to layer, so the last few tell, too
            greatest(
                (1 + 8 / count(*) OVER earlier) * 1.4826 * coalesce(mad(product_shift) OVER earlier, mad(shift) OVER earlier),
                if(is_low_precision(spacing), 2 * 1.4826 * coalesce(mad(product_shift) OVER last, mad(shift) OVER last), NULL)
            ) AS spread,
            median(error_out) OVER earlier AS error_out,
            median(scatter) OVER earlier AS usual_scatter
        FROM ops
        JOIN noise_errors USING (number)
        WINDOW
            earlier AS (PARTITION BY kind ORDER BY number ROWS BETWEEN 64 PRECEDING AND 1 PRECEDING),
            last AS (PARTITION BY kind ORDER BY number ROWS BETWEEN 8 PRECEDING AND 1 PRECEDING)
        QUALIFY members >= 5
    ),
    -- a product of few of its kind is held against those of other kinds: inputs cut to fewer bits make it smaller by as much,
    -- or by half of it or not at all, where one factor is not cut or a bias is most of the result
    kin AS (
        SELECT
            count(*) AS members,
            true AS is_population,
            median(product_shift) AS usual,
            kin_spread(product_shift) AS spread,
            median(error_out) AS error_out,
            median(scatter) AS usual_scatter
        FROM ops
        JOIN noise_errors USING (number)
        WHERE is_one_product AND product_shift IS NOT NULL AND NOT is_normalisation AND NOT is_low_precision(spacing) AND ops.n >= 64
        HAVING count(*) >= 5
    ),
    -- cut factors make a product smaller and never larger. So one that has no others beside it tells by growing
    alone AS (
        SELECT number, 1 AS members, false AS is_population, 0 AS usual, 0 AS spread, true AS may_shrink
        FROM ops
        JOIN noise_ops USING (number)
        JOIN noise_errors USING (number)
        WHERE
            NOT is_normalisation
            AND is_one_product
            AND multiplies_once(api)
            AND NOT is_low_precision(spacing)
            AND (ops.n < 64 OR (ops.kind NOT IN (SELECT kind FROM kinds) AND NOT EXISTS (FROM kin)))
    ),
    views AS (
        SELECT number, true AS is_whole, members, is_population, usual, spread, error_out, usual_scatter FROM ops JOIN kinds USING (kind)
        UNION ALL BY NAME
        SELECT false AS is_whole, * FROM before
        UNION ALL BY NAME
        SELECT number, false AS is_whole, kin.*
        FROM ops
        JOIN noise_errors USING (number)
        CROSS JOIN kin
        WHERE is_one_product AND NOT is_normalisation AND NOT is_low_precision(spacing) AND kind NOT IN (SELECT kind FROM kinds)
        UNION ALL BY NAME
        SELECT false AS is_whole, * FROM alone
    ),
    explained AS (
        SELECT
            ops.*,
            views.* EXCLUDE (number, usual, spread, error_out),
            -- cut factors move a norm by less: what moves further in most of a kind, as in a module that is called again and
            -- again, is wrong in most, and so is a kind of which most grew. What is added may be cut as factors are, or not
            multiplies_once(api) AND NOT is_low_precision(spacing) AND views.usual > 0.25 * getvariable('coarsest_matmul') AS most_grew,
            if(
                most_grew OR (multiplies_once(api) AND abs(views.usual) > 0.75 * getvariable('coarsest_matmul')),
                0,
                views.usual * cut * (1 + share) / 2
            ) AS usual,
            views.spread + abs(views.usual) * (1 - share + if(loses_otherwise, 1, 0)) / 4 AS spread,
            error_in,
            upper_out = 0 AS is_repeated,
            condition,
            spacing,
            coalesce(replaced, 0) AS replaced,
            laws.let_through AS let_past,
            coalesce(averaged.apart, 1) AS apart_in,
            CASE
                WHEN is_softmax THEN floor
                WHEN may_shrink THEN greatest(floor, scatter, condition * error_in)
                -- where the deviation is next to the epsilon, a normalisation gives some of what came in
                WHEN is_population AND is_normalisation THEN greatest(views.error_out, condition * error_in)
                -- in 16 bits the rows of two factors may err together, which moves no extreme far
                WHEN is_population AND is_low_precision(spacing) AND regexp_matches(api, '(?i)matmul|bmm')
                    THEN greatest(floor, views.error_out, condition * error_in)
                WHEN is_population
                    THEN greatest(floor, least(greatest(views.error_out, condition * error_in), 3 * greatest(usual_scatter, scatter)))
                WHEN is_low_precision(spacing) THEN greatest(floor, condition * error_in)
                ELSE floor
            END AS known_error
        FROM ops
        JOIN views ON views.number = ops.number
        JOIN noise_errors ON noise_errors.number = ops.number
        JOIN noise_ops ON noise_ops.number = ops.number
        LEFT JOIN (SELECT golden_seq, replaced FROM noise_repeat) AS repeats USING (golden_seq)
        LEFT JOIN (SELECT number, let_through FROM noise_laws) AS laws ON laws.number = ops.number
        LEFT JOIN averaged ON averaged.number = ops.number
        CROSS JOIN (SELECT floor FROM noise_floors WHERE rounding = 'other') AS others
        WHERE ops.n >= if(is_softmax OR may_shrink, 8, 64)
    ),
    bounded AS (
        SELECT
            *,
            shift_unit(
                spread,
                greatest(known_error, least(coalesce(scatter, 0), 3 * known_error)),
                greatest(1, apart * least(n, apart_in * n_in, channels)),
                if(is_normalisation, greatest(0.01, coalesce(let_through, 0)), least(1, 0.1 * condition)) * brought,
                coalesce(let_past, 0)
                + if(getvariable('is_first_step'), 0, 0.1 * error_in + 0.5 * second_error)
                + if(is_low_precision(spacing), 0, 0.25 * hidden_error)
                + weights_error,
                replaced,
                -- a program that computes a normalisation in steps rounds the deviation of all rows one way, if all were
                -- normalised before; and what a product takes from an attention may err as the sums of its probabilities do
                if(
                    NOT is_softmax AND getvariable('cross_framework') <> 0 AND is_low_precision(spacing),
                    greatest(rounding, spacing / 64),
                    rounding
                )
            ) AS bound
        FROM explained
    ),
    measured AS (
        SELECT
            *,
            -- where others let a shift through, a normalisation that does not is none the less sound, nor is a product that is
            -- golden's to the last bit, as one of integers
            CASE
                WHEN is_repeated THEN 0
                WHEN may_shrink THEN greatest(0, least(shift, whole_shift))
                WHEN is_normalisation THEN least(abs(shift - usual), abs(shift))
                WHEN most_grew THEN greatest(0, shift)
                ELSE moved_from(shift, usual, bound)
            END AS moved,
            max(moved / bound) OVER (
                PARTITION BY kind, is_whole ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW
            ) AS largest
        FROM bounded
    )
SELECT
    number,
    shift,
    usual,
    bound * if(is_whole, calibration(largest, members - 1), 1) AS unit,
    moved / unit / 2 - 1 AS score,
    members - 1 AS members,
    is_softmax AS is_law
FROM measured
-- what did not grow says nothing of how norms move
WHERE NOT coalesce(may_shrink, false) OR score >= getvariable('outstanding_score')
QUALIFY row_number() OVER (PARTITION BY number ORDER BY score DESC) = 1
