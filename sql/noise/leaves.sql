-- leaves: the error of each row of tensors, as one relative error per element.
-- grain: one row of the comparison in which either side is a tensor
-- parameters: the tables paired, metrics, verdicts, target_leaves, golden_leaves, noise_ops and noise_nearest
-- What an op overwrites is left out: it may be memory that nothing was written to.
-- golden_…: the statistics of golden, or of the repeat that replaces it (noise/nearest)
-- number, phase, kind, op_is_leaf: the pair of ops that the row belongs to; NULL if its op has no counterpart. All rows of
--   an op that does what several do in golden belong to it
-- is_trained: it requires a gradient on both sides
-- error: the relative error per element that explains the difference of the two sides, if the errors of elements are
--   independent. Contents give it exactly: ‖target − golden‖ / ‖golden‖. Statistics estimate it: an error ε per element
--   moves the max and the min by ε of the larger magnitude, the norm by ε / √n of itself and the mean by ε · norm / n;
--   error is the median of these four estimates (docs/noise.md), and no less than least_error. NULL with two. Beside a mask
--   only one extreme tells, and of what two programs normalise both do: it has one norm and one mean whatever is wrong. Where
--   the mean alone is known, error is least_error.
-- is_masked: a mask determines an extreme, and with it norm and mean
-- is_nonfinite: one side alone has NaN or inf, or the other of the two
-- lower: the second smallest estimate: correlated errors move norm and mean further than independent ones
-- least_error: ‖target − golden‖ is no less than the difference of the norms (triangle inequality), nor than √n times that of
--   the means (Cauchy–Schwarz inequality), whatever the errors of the elements have to do with each other
-- upper: the root mean square of the estimates: the error that an op may have taken in
-- scatter, left_of_mean: what a factor common to all elements leaves of the errors by max and min, and by the mean
-- smallest: the smallest magnitude of an element, where all have one sign
-- extreme: how far the max or the min moves, whichever moves further, relative to the larger magnitude of both sides
-- is_other_constant: all elements are one number on each side, written into the program, and the two differ; a single
--   element by more than 1 %, as a computed number may have few digits by chance
-- has_same_extremes: max and min agree to the last bit, and are two numbers: so it is with labels, masks and other data,
--   but not with what ops that round have computed
-- has_zeros: some of its elements are 0, as where a mask ends
-- width, height: the sizes of the last dimension and of the one before it, 1 where there is none
-- shift: how far the norm moves, relative to golden's; NULL where it tells nothing: beside a mask, of another shape, of
--   integers
-- has_other_sums: norm or mean is not golden's to the last bit
-- is_bounded: max and min are 0, 1 or -1 on both sides, as of probabilities
-- is_mirrored: max and min are one number with either sign on both sides, as of sines and grids
-- target_zeros, golden_zeros: how many elements are 0; NULL if a side did not count them
-- key: macros/value_key
-- differs: whether the statistics differ by more than another order of summation explains
WITH
    -- most dumps have none of these: a join with few rows costs little
    measured AS (
        SELECT row, measurement, values_equal, euclidean_distance, scale_norm
        FROM metrics
        WHERE measurement IS NOT NULL OR values_equal IS NOT NULL
    ),
    target_counts AS (
        SELECT row, wide_norm, wide_mean, zero_count, nan_count, posinf_count, neginf_count
        FROM target_leaves
        WHERE wide_norm IS NOT NULL OR zero_count IS NOT NULL OR nan_count IS NOT NULL
    ),
    golden_counts AS (
        SELECT row, wide_norm, wide_mean, zero_count, nan_count, posinf_count, neginf_count
        FROM golden_leaves
        WHERE wide_norm IS NOT NULL OR zero_count IS NOT NULL OR nan_count IS NOT NULL
    ),
    set_aside AS (
        SELECT row FROM verdicts WHERE verdict = 'skipped' OR outcome = 'unrecorded'
        UNION ALL
        SELECT p.row
        FROM paired AS p
        JOIN noise_ops AS o ON o.target_seq = p.target_seq AND overwrites(o.api)
        WHERE p.role = 'input' AND p.target_slot = 'input.0' AND o.direction = 'forward'
    ),
    -- each macro here once: a name that is used in the same SELECT stands for its expression again, and plans grow with it
    compared AS (
        SELECT
            p.row,
            p.target_row,
            p.golden_row,
            p.target_seq,
            p.golden_seq,
            o.number,
            o.phase,
            o.kind,
            o.is_leaf AS op_is_leaf,
            p.role,
            coalesce(p.target_slot, p.golden_slot) AS slot,
            p.role NOT IN ('output', 'parameters_grad') AS is_input,
            getvariable('cross_framework') <> 0 AND p.role = 'output' AND is_normalisation(o.api) AS is_normalised,
            coalesce(p.target_requires_grad AND p.golden_requires_grad, false) AS is_trained,
            p.target_row IS NOT NULL AND p.golden_row IS NOT NULL AS is_paired,
            epsilon_of(p.target_dtype) AS target_spacing,
            epsilon_of(p.golden_dtype) AS golden_spacing,
            p.target_kind = 'tensor' AND p.golden_kind = 'tensor' AND same_shape(p.target_shape, p.golden_shape, p.matched_by) AS is_like,
            greatest(coalesce(list_aggregate(coalesce(p.golden_shape, p.target_shape), 'product'), 1), 1)::DOUBLE AS n,
            coalesce(p.golden_shape[-1], 1)::DOUBLE AS width,
            coalesce(p.golden_shape[-2], 1)::DOUBLE AS height,
            p.target_max,
            p.target_min,
            coalesce(nearest.max, p.golden_max) AS golden_max,
            coalesce(nearest.min, p.golden_min) AS golden_min,
            p.target_digest,
            p.golden_digest,
            nearest.golden_row IS NULL AS is_of_golden,
            t.wide_norm AS target_wide_norm,
            g.wide_norm AS golden_wide_norm,
            t.wide_mean AS target_wide_mean,
            g.wide_mean AS golden_wide_mean,
            p.target_norm AS target_plain_norm,
            coalesce(nearest.norm, p.golden_norm) AS golden_plain_norm,
            p.target_mean AS target_plain_mean,
            coalesce(nearest.mean, p.golden_mean) AS golden_plain_mean,
            p.golden_max AS own_max,
            p.golden_min AS own_min,
            t.zero_count AS target_zeros,
            g.zero_count AS golden_zeros,
            (t.nan_count, t.posinf_count, t.neginf_count) IS DISTINCT FROM (g.nan_count, g.posinf_count, g.neginf_count)
            AND t.nan_count IS NOT NULL AND g.nan_count IS NOT NULL AS other_nonfinite,
            coalesce(p.target_max_int <> p.golden_max_int OR p.target_min_int <> p.golden_min_int, false) AS other_integers,
            m.measurement,
            m.values_equal,
            m.euclidean_distance,
            m.scale_norm
        FROM paired AS p
        LEFT JOIN measured AS m ON m.row = p.row
        LEFT JOIN target_counts AS t ON t.row = p.target_row
        LEFT JOIN golden_counts AS g ON g.row = p.golden_row
        LEFT JOIN noise_nearest AS nearest ON nearest.golden_row = p.golden_row
        ANTI JOIN set_aside ON set_aside.row = p.row
        LEFT JOIN noise_ops AS o ON o.target_seq = p.target_seq AND o.side = 'pair' AND p.golden_seq IS NOT NULL
        WHERE p.target_kind = 'tensor' OR p.golden_kind = 'tensor'
    ),
    spaced AS (
        SELECT
            *,
            target_spacing > 0 AS is_float,
            greatest(target_spacing, golden_spacing) AS spacing,
            target_wide_norm IS NOT NULL AND golden_wide_norm IS NOT NULL AND is_of_golden AS is_wide,
            -- sums in the dtype of the tensor have its digits, beside which those of float32 need no others
            is_of_golden
            AND (target_wide_norm IS NOT NULL OR NOT is_low_precision(target_spacing))
            AND (golden_wide_norm IS NOT NULL OR NOT is_low_precision(golden_spacing)) AS has_digits
        FROM compared
    ),
    sides AS (
        SELECT
            * EXCLUDE (
                target_spacing, golden_spacing, target_wide_norm, golden_wide_norm, target_wide_mean, golden_wide_mean,
                target_plain_norm, golden_plain_norm, target_plain_mean, golden_plain_mean, is_of_golden, has_digits
            ),
            if(has_digits, coalesce(target_wide_norm, target_plain_norm), target_plain_norm) AS target_norm,
            if(has_digits, coalesce(golden_wide_norm, golden_plain_norm), golden_plain_norm) AS golden_norm,
            if(has_digits, coalesce(target_wide_mean, target_plain_mean), target_plain_mean) AS target_mean,
            if(has_digits, coalesce(golden_wide_mean, golden_plain_mean), golden_plain_mean) AS golden_mean,
            is_low_precision(spacing) AND target_spacing <> golden_spacing AS is_rounded,
            if(NOT has_digits AND is_rounded, spacing / 2, 0) AS lost_digits,
            -- between frameworks, of which each chooses what it computes in 16 bits, a value is the same if it rounds to the other
            if(getvariable('cross_framework') <> 0 AND is_rounded, spacing, 0) AS cast_error
        FROM spaced
    ),
    -- where one program runs twice, what one run alone masks is no mask but a difference, if the extremes are apart
    masked AS (
        SELECT
            *,
            if(
                is_mask(target_max, target_min) = is_mask(golden_max, golden_min),
                is_mask(target_max, target_min),
                getvariable('cross_framework') <> 0
                OR NOT (
                    least(target_min, golden_min) >= 0
                    OR coalesce(abs(target_max - golden_max) > greatest(abs(target_max), abs(golden_max)) / 2, false)
                )
            )
            OR coalesce(NOT isfinite(target_max) OR NOT isfinite(golden_max), false) AS max_is_mask,
            if(
                is_mask(target_min, target_max) = is_mask(golden_min, golden_max),
                is_mask(target_min, target_max),
                getvariable('cross_framework') <> 0
                OR NOT (
                    least(target_min, golden_min) >= 0
                    OR coalesce(abs(target_min - golden_min) > greatest(abs(target_min), abs(golden_min)) / 2, false)
                )
            )
            OR coalesce(NOT isfinite(target_min) OR NOT isfinite(golden_min), false) AS min_is_mask
        FROM sides
    ),
    scaled AS (
        SELECT
            *,
            if(max_is_mask, NULL, abs(target_max - golden_max)) AS max_apart,
            if(min_is_mask, NULL, abs(target_min - golden_min)) AS min_apart,
            greatest(
                if(max_apart IS NULL, 0, greatest(abs(target_max), abs(golden_max))),
                if(min_apart IS NULL, 0, greatest(abs(target_min), abs(golden_min)))
            ) AS magnitude,
            if(max_apart IS NULL OR min_apart IS NULL, NULL, nullif(greatest(target_norm, golden_norm), 0)) AS norm,
            greatest(if(is_wide, 2.0 ** -48, 2.0 ** -22), lost_digits) AS rounding,
            is_like AND (
                (target_max <> golden_max AND NOT (isfinite(target_max) AND isfinite(golden_max)))
                OR (
                    target_min <> golden_min
                    AND NOT (isfinite(target_min) AND isfinite(golden_min))
                    -- two programs may mask with other numbers, of which a type of 16 bits holds some as -inf
                    AND NOT (
                        getvariable('cross_framework') <> 0
                        AND least(target_min, golden_min) = '-inf'
                        AND isfinite(target_max)
                        AND isfinite(golden_max)
                    )
                )
            ) AS is_nonfinite,
            coalesce(measurement = 'measured' AND scale_norm > 0, false) AND NOT max_is_mask AND NOT min_is_mask AS is_measured
        FROM masked
    ),
    estimated AS (
        SELECT
            *,
            is_like AND magnitude > 0 AS is_estimated,
            if(is_estimated, finite_part(max_apart / magnitude), NULL) AS by_max,
            if(is_estimated, finite_part(min_apart / magnitude), NULL) AS by_min,
            if(
                is_estimated AND norm IS NOT NULL,
                finite_part(sqrt(n) * greatest(0, abs(target_norm - golden_norm) / norm - rounding)),
                NULL
            ) AS by_norm,
            if(
                is_estimated AND norm IS NOT NULL,
                finite_part(n * greatest(0, abs(target_mean - golden_mean) / norm - rounding / sqrt(n))),
                NULL
            ) AS by_mean,
            -- of a partial sum of ranks the mean alone is known (layouts/merged)
            if(
                is_like
                AND (coalesce(target_max, target_norm) IS NULL OR coalesce(own_max, golden_norm) IS NULL)
                AND target_mean + golden_mean IS NOT NULL
                AND greatest(target_norm, golden_norm) > 0,
                least(
                    2.0,
                    greatest(0, sqrt(n) * abs(target_mean - golden_mean) / greatest(target_norm, golden_norm) - rounding)
                ),
                NULL
            ) AS by_mean_alone,
            if(is_estimated AND norm IS NOT NULL AND golden_norm > 0, finite_part(target_norm / golden_norm), NULL) AS factor
        FROM scaled
    ),
    -- what a factor common to all elements leaves of the differences, as where inputs cut to fewer bits make products smaller
    left_over AS (
        SELECT
            *,
            finite_part(abs(target_max - factor * golden_max) / magnitude) AS left_of_max,
            finite_part(abs(target_min - factor * golden_min) / magnitude) AS left_of_min,
            finite_part(n * greatest(0, abs(target_mean - factor * golden_mean) / norm - rounding / sqrt(n))) AS left_of_mean
        FROM estimated
    ),
    scattered AS (
        SELECT
            *,
            sqrt((left_of_max ** 2 + left_of_min ** 2) / 2) AS scatter,
            -- an extreme of 0 stays what it is in any case, and the other alone may agree by chance
            if(golden_max = 0 OR golden_min = 0, 4, 1) AS doubt,
            coalesce(
                left_of_mean IS NOT NULL
                AND abs(factor - 1) > getvariable('coarsest_matmul') / 10
                AND (
                    greatest(left_of_max, left_of_min)
                    -- two programs round their constants, too: extremes of 16 bits may stay where they are
                    < greatest(
                        abs(factor - 1) / (2 * doubt),
                        if(getvariable('cross_framework') <> 0 AND is_low_precision(spacing), spacing, 0)
                    )
                    -- elements that err by as much as the norm says move extremes by such a part of an element of usual size, and
                    -- what is left of the mean
                    OR (
                        NOT is_low_precision(spacing)
                        AND greatest(greatest(by_max, by_min) * magnitude * sqrt(n) / norm, left_of_mean) < by_norm / (12 * doubt)
                    )
                ),
                false
            ) AS is_factor,
            (by_max IS NOT NULL)::INTEGER + (by_min IS NOT NULL)::INTEGER + (by_norm IS NOT NULL)::INTEGER
            + (by_mean IS NOT NULL)::INTEGER AS parts,
            least(coalesce(by_max, 'inf'), coalesce(by_min, 'inf')) AS low_extreme,
            greatest(coalesce(by_max, 'inf'), coalesce(by_min, 'inf')) AS high_extreme,
            least(coalesce(by_norm, 'inf'), coalesce(by_mean, 'inf')) AS low_moment,
            greatest(coalesce(by_norm, 'inf'), coalesce(by_mean, 'inf')) AS high_moment,
            greatest(coalesce(by_norm, 0), coalesce(by_mean, 0)) / sqrt(n) AS least_error,
            -- the error where nothing has to be estimated
            CASE
                WHEN values_equal THEN 0.0
                WHEN is_nonfinite THEN 1.0
                WHEN is_measured THEN least(2.0, euclidean_distance / scale_norm)
                WHEN is_like AND magnitude = 0 AND max_apart IS NOT NULL THEN 0.0
            END AS known
        FROM left_over
    ),
    -- the four in their order, without a list, which would take most of the time of this query
    sorted AS (
        SELECT
            *,
            if(
                is_factor,
                sqrt((factor - 1) ** 2 + (left_of_max ** 2 + left_of_min ** 2 + left_of_mean ** 2) / 3),
                NULL
            ) AS upper_by_factor,
            if(
                is_factor,
                sqrt(
                    (factor - 1) ** 2
                    + greatest(
                        least(left_of_max, left_of_min),
                        least(greatest(left_of_max, left_of_min), left_of_mean)
                    ) ** 2
                ),
                NULL
            ) AS error_by_factor,
            if(is_normalised, low_extreme, least(greatest(low_extreme, low_moment), least(high_extreme, high_moment))) AS second,
            if(is_normalised, high_extreme, greatest(greatest(low_extreme, low_moment), least(high_extreme, high_moment))) AS third
        FROM scattered
    )
SELECT
    row,
    golden_row,
    target_seq,
    golden_seq,
    number,
    phase,
    kind,
    op_is_leaf,
    role,
    slot,
    is_input,
    is_trained,
    is_paired,
    is_float,
    is_like,
    spacing,
    n,
    width,
    height,
    target_norm,
    golden_norm,
    target_mean,
    golden_mean,
    magnitude,
    nullif(greatest(least(target_min, golden_min), -greatest(target_max, golden_max), 0), 0) AS smallest,
    rounding,
    coalesce(golden_zeros > 0, golden_max = 0 OR golden_min = 0, false) AS has_zeros,
    max_is_mask OR min_is_mask AS is_masked,
    is_nonfinite,
    is_measured,
    target_zeros,
    golden_zeros,
    CASE
        WHEN known IS NOT NULL THEN known
        WHEN parts = 4 THEN least(2.0, greatest(least((second + third) / 2, error_by_factor), least_error))
        WHEN parts = 3 THEN least(2.0, greatest(second, least_error))
        WHEN parts = 1 THEN least(2.0, low_extreme)
        WHEN parts = 0 THEN by_mean_alone
    END AS error,
    if(known IS NULL AND parts >= 3, least(2.0, greatest(second, least_error)), error) AS lower,
    CASE
        WHEN known IS NOT NULL THEN known
        WHEN
            parts > 0
            THEN
                least(
                    2.0,
                    sqrt(
                        (
                            coalesce(by_max ** 2, 0) + coalesce(by_min ** 2, 0) + coalesce(by_norm ** 2, 0)
                            + coalesce(by_mean ** 2, 0)
                        ) / parts
                    )
                )
        WHEN parts = 0 THEN by_mean_alone
    END AS upper,
    greatest(least(upper, upper_by_factor), least_error) AS taken,
    scatter,
    left_of_mean,
    greatest(by_max, by_min) AS extreme,
    CASE
        WHEN is_paired AND is_like AND is_float AND golden_norm > 0 AND NOT is_masked
            THEN finite_part((target_norm - golden_norm) / golden_norm)
    END AS shift,
    CASE
        WHEN
            target_max = target_min
            AND golden_max = golden_min
            AND abs(target_max - golden_max) > if(n > 1, 0, 0.01 * greatest(abs(target_max), abs(golden_max)))
            AND NOT is_low_precision(spacing)
            THEN is_written_element(target_max)
            AND is_written_element(golden_max)
        ELSE false
    END AS is_other_constant,
    coalesce(
        target_max = golden_max AND target_min = golden_min AND target_max > target_min AND NOT is_low_precision(spacing), false
    ) AS has_same_extremes,
    coalesce(target_norm <> golden_norm OR target_mean <> golden_mean, false) AS has_other_sums,
    coalesce(
        target_max IN (-1, 0, 1) AND target_min IN (-1, 0, 1) AND golden_max IN (-1, 0, 1) AND golden_min IN (-1, 0, 1), false
    ) AS is_bounded,
    coalesce(target_max > 0 AND target_max = -target_min AND golden_max = -golden_min, false) AS is_mirrored,
    value_key(target_max, target_min, target_zeros, n, target_digest) AS target_key,
    value_key(own_max, own_min, golden_zeros, n, golden_digest) AS golden_key,
    is_like AND (
        coalesce(NOT values_equal, false)
        OR coalesce(
            (target_max <> golden_max AND abs(target_max - golden_max) > cast_error * abs(golden_max))
            OR (target_min <> golden_min AND abs(target_min - golden_min) > cast_error * abs(golden_min)),
            false
        )
        OR other_integers
        OR other_nonfinite
        OR coalesce(target_zeros <> golden_zeros, false)
        OR coalesce(values_equal IS NULL AND other_digest(target_digest, golden_digest), false)
        OR coalesce(
            target_norm <> golden_norm
            AND abs(target_norm - golden_norm) > if(is_float, greatest(rounding, cast_error), 0) * greatest(target_norm, golden_norm),
            false
        )
        OR coalesce(
            target_mean <> golden_mean
            AND abs(target_mean - golden_mean)
            > if(is_float, greatest(rounding, cast_error), 0) * greatest(target_norm, golden_norm) / sqrt(n),
            false
        )
    ) AS differs
FROM sorted
