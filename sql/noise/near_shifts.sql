-- near_shifts: how the norm moves in each op, if a repeat that rounds as the target does replaces golden.
-- grain: one op that gives as many numbers as it takes, or a matrix product of the forward pass
-- parameters: the tables noise_ops, noise_leaves, noise_errors, noise_floors and noise_repeat
-- Beside such a repeat little noise is left, so any op shows by its norm what it does to its elements: 0.1 % of all, or
--   one that is lost. An op passes on the shift of its inputs, about as it is, and a backward op also that of what its
--   forward op took and gave. So the columns are those of noise/shifts, but the usual shift is 0.
-- unit: the shift that rounding explains: twice the shifts of the inputs, by their size relative to the output; the
--   effect of independent errors on a norm; a tenth of the input error, which need not be independent; what is left of
--   golden's error; a float32 sum of n squares, about √n roundings; an element that noise moves over the kink of a function
WITH
    leaves AS (
        SELECT
            o.number,
            o.call_key,
            o.golden_seq,
            o.phase,
            o.rounding AS way,
            has_kink(o.api) AS is_kinked,
            l.is_input,
            l.n,
            l.golden_norm,
            l.rounding,
            abs(l.shift) AS shift
        FROM noise_leaves AS l
        JOIN noise_ops AS o USING (number)
        WHERE
            l.shift IS NOT NULL
            AND o.phase <> 'optimizer'
            AND o.direction <> 'parameters_grad'
            AND o.is_leaf
            AND o.op_kind <> 'module'
            AND o.golden_seq IN (SELECT golden_seq FROM noise_repeat WHERE replaced > 0)
    ),
    outputs AS (
        SELECT *
        FROM leaves
        WHERE NOT is_input AND n >= 64
        QUALIFY row_number() OVER (PARTITION BY number ORDER BY n DESC, golden_norm DESC) = 1
    ),
    saved AS (
        SELECT call_key, max(shift) AS kept FROM leaves WHERE phase = 'forward' GROUP BY call_key
    ),
    inputs AS (
        SELECT
            outputs.number,
            bool_or(leaves.n = outputs.n) AS is_elementwise,
            ordered_sum(leaves.shift * greatest(1, leaves.golden_norm / outputs.golden_norm)) AS brought,
            max(greatest(1, leaves.golden_norm / outputs.golden_norm)) FILTER (WHERE leaves.n = outputs.n) AS cancelled
        FROM outputs
        JOIN leaves ON leaves.number = outputs.number AND leaves.is_input
        GROUP BY outputs.number
    )
SELECT
    outputs.number,
    outputs.shift,
    0.0 AS usual,
    sqrt(
        (2 * brought) ** 2
        + if(phase = 'backward', 2 * coalesce(saved.kept, 0), 0) ** 2
        + 4 * (coalesce(cancelled, 1) * greatest(noise_errors.error_in, floor)) ** 2 / outputs.n
        + replaced ** 2
        + (outputs.rounding * (4 + sqrt(outputs.n) / 2)) ** 2
        + if(is_kinked, 8 / outputs.n, 0) ** 2
        + (0.1 * noise_errors.error_in) ** 2
    ) AS unit,
    outputs.shift / unit / 2 - 1 AS score,
    0 AS members,
    true AS is_law
FROM outputs
JOIN inputs USING (number)
JOIN noise_errors ON noise_errors.number = outputs.number
JOIN noise_floors ON noise_floors.rounding = outputs.way
LEFT JOIN saved ON saved.call_key = outputs.call_key
JOIN noise_repeat ON noise_repeat.golden_seq = outputs.golden_seq
WHERE is_elementwise OR (way = 'matmul' AND phase = 'forward')
