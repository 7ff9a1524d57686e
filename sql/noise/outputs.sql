-- outputs: how far the results of each op err, and how large they are.
-- grain: one op with a float output of a known size
-- parameters: the tables noise_leaves, noise_ops and noise_factors
-- error_out, lower_out, upper_out, taken_out: the largest of these errors of its float outputs. What is left beside numbers
--   that cancel errs by the size of those
-- extreme_out: the furthest that one of their extremes moves
-- magnitude: the largest magnitude of its largest output
-- n, least_n: how many elements the largest and the smallest of its float outputs have
-- norm, larger_norm: the largest norm of its outputs, in golden and in either run
-- incoming_norm: the largest norm of what comes in backwards
WITH
    leaves AS (
        SELECT
            l.number,
            l.slot,
            l.role,
            l.is_input,
            l.is_masked,
            l.n,
            l.spacing,
            l.magnitude,
            l.target_norm,
            l.golden_norm,
            l.error,
            l.lower,
            l.upper,
            l.taken,
            l.extreme,
            o.api,
            o.module_key,
            o.call_key,
            o.op_kind,
            o.direction,
            o.is_leaf
        FROM noise_leaves AS l
        JOIN noise_ops AS o USING (number)
        WHERE l.is_paired AND l.is_float
    ),
    -- what comes into each module, backwards
    reached AS (
        SELECT module_key, max(golden_norm) AS norm
        FROM leaves
        WHERE is_input AND op_kind = 'module' AND direction = 'backward'
        GROUP BY module_key
    ),
    -- what comes into each backward op
    incoming AS (
        SELECT number, max(golden_norm) AS norm, max(n) AS n
        FROM leaves
        WHERE is_input AND is_leaf AND direction = 'backward'
        GROUP BY number
    ),
    -- what the gradient of a factor is multiplied by, or that of a query or a key of attention
    multipliers AS (
        SELECT own.call_key, own.place, product(other.size) AS size
        FROM noise_factors AS own
        JOIN noise_factors AS other ON other.call_key = own.call_key AND other.place <> own.place
        WHERE own.is_multiplied
        GROUP BY own.call_key, own.place
    ),
    -- A gradient of fewer elements is a sum over what comes in backwards, beside which little of it may be left. The gradient
    -- of a softmax or a normalisation is what comes in less its mean: of a softmax over one element nothing is left. A module
    -- in which no op was recorded may be either, as one that gives a weight its norm. Zeros of a factor leave little of one,
    -- too, and so does attention to one element.
    put_out AS (
        SELECT
            leaves.*,
            incoming.norm AS incoming_norm,
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
            ) AS share
        FROM leaves
        LEFT JOIN reached ON reached.module_key = leaves.module_key
        LEFT JOIN incoming ON incoming.number = leaves.number
        LEFT JOIN multipliers
            ON multipliers.call_key = leaves.call_key
            AND multipliers.place = regexp_extract(leaves.slot, '\d+')
            AND leaves.direction = 'backward'
        WHERE role IN ('output', 'parameters_grad')
    )
SELECT
    number,
    max(error * share) AS error_out,
    max(lower * share) AS lower_out,
    max(upper * share) AS upper_out,
    max(taken * share) AS taken_out,
    max(extreme) AS extreme_out,
    max(golden_norm) AS norm,
    max(greatest(target_norm, golden_norm)) AS larger_norm,
    max(incoming_norm) AS incoming_norm,
    max(spacing) AS spacing,
    max(n) AS n,
    min(n) AS least_n,
    max_by(magnitude, n) AS magnitude,
    bool_or(is_masked) AS is_masked
FROM put_out
GROUP BY number
