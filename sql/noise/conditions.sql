-- conditions: how much each op magnifies an error of what it takes.
-- grain: one op of noise_outputs
-- parameters: the tables paired, noise_leaves, noise_ops, noise_factors, noise_outputs and noise_inputs; thresholds
-- condition: how much the op magnifies a relative error of its input: exponentials and waves see it as an absolute error, so
--   by the largest magnitude of the input (N. J. Higham, Accuracy and Stability of Numerical Algorithms, §1.6: |x f'(x) /
--   f(x)|), and powers by the exponent or the logarithm of the result. A logarithm makes an absolute error of it, so it
--   magnifies by the inverse of a result below 1, and an error of its smallest element, which may be that of the largest, by
--   the ratio of both; so does its gradient. Where it is infinite at 0, its largest finite extreme tells. The logarithm of a
--   factorial, whose slope is less than ln x where that is more than 1, has few digits near 1 and 2. A matrix product whose
--   terms cancel magnifies by the norm that it would have if they did not, √K · rms(A) · rms(B), over the norm that it has
--   (ibid., §3.5: |fl(C) − C| ≤ γₖ |A| |B|). Where the elements of A are nearly equal, as after a softmax, so are the rows of
--   the product: they err together, and the norm and the mean show √rows of that. Attention takes a softmax of scores, which
--   sees their error as an absolute one: it counts by a quarter of their size. A system of equations magnifies by the
--   condition number of its matrix A, which is no less than ‖A‖ ‖x‖ / ‖b‖ (ibid., §7.1), as by ‖A‖ ‖A⁻¹‖ where the inverse
--   is wanted. A decomposition into vectors has no sure digit: nearly equal values exchange them, and their signs are free.
--   The root of an element next to 0 errs by the root of its error. The Kullback-Leibler divergence is a sum of p (log p - log q),
--   which cancel where two distributions are alike
-- extreme_condition: how many times the rounding of its elements an extreme may move: by a few deviations, and in a matrix
--   product no further than if all of its terms were the largest ones (ibid.)
-- is_passed_on: the op multiplies what it takes, or cuts it off, so a gradient passes it as it is
WITH
    -- the two factors of a matrix product: its largest inputs, of which the first ends in the dimension that is summed over
    factors AS (
        SELECT
            number,
            first(width ORDER BY row) AS terms,
            first((golden_mean * sqrt(n) / golden_norm) ** 2 ORDER BY row) AS evenness,
            max((golden_mean * sqrt(n) / golden_norm) ** 2) AS most_even,
            first(height ORDER BY row) AS rows_together,
            product(golden_norm / sqrt(n)) AS size,
            product(magnitude) AS largest_term
        FROM (
            SELECT number, row, width, height, golden_norm, golden_mean, magnitude, n
            FROM noise_leaves
            JOIN noise_ops USING (number)
            WHERE
                is_paired
                AND is_float
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
        FROM noise_factors
        WHERE is_compared
        GROUP BY number
        HAVING count(*) = 2
    ),
    -- how large a result a system of equations needs: next to nothing of the matrix is left where it is needed
    solved AS (
        SELECT
            number,
            max(if(is_matrix, if(api = 'cholesky_solve', golden_norm ** 2, golden_norm) / sqrt(height), NULL)) AS matrix,
            coalesce(max(if(is_matrix, NULL, golden_norm)), max(if(is_matrix, sqrt(height), NULL))) AS wanted
        FROM (
            SELECT number, api, golden_norm, height, slot = if(api IN ('cholesky_solve', 'triangular_solve'), 'input.1', 'input.0') AS is_matrix
            FROM noise_leaves
            JOIN noise_ops USING (number)
            WHERE is_paired AND is_float AND is_input AND direction = 'forward' AND solves(api)
        )
        GROUP BY number
    ),
    -- by how much the terms of a divergence are multiplied before they are summed: of a mean over a batch the sum of a row of p is 1
    divergences AS (
        SELECT
            number,
            CASE coalesce(any_value(target_value) FILTER (target_slot = 'input.reduction'), 'mean')
                WHEN 'batchmean' THEN 1
                WHEN 'sum' THEN max(p.golden_mean * list_product(p.golden_shape)) FILTER (target_slot = 'input.1')
                ELSE max(p.golden_mean) FILTER (target_slot = 'input.1')
            END AS weight
        FROM noise_ops AS o
        JOIN paired AS p ON p.target_seq = o.target_seq AND p.golden_seq = o.golden_seq AND p.role = 'input'
        WHERE o.direction = 'forward' AND o.api = 'kl_div'
        GROUP BY number
    ),
    -- apart, because a name that is used in the same SELECT stands for its expression again
    measured AS (
        SELECT
            o.number,
            coalesce(nullif(outputs.norm, 0), outputs.larger_norm) AS result,
            regexp_matches(o.api, '(?i)relu|gelu|silu|swish|hardtanh|clamp|sigmoid|tanh|dropout')
            OR is_multiplication(o.api)
            OR coalesce(factors.terms = 1 AND factors.most_even > 0.999, false) AS is_passed_on,
            CASE
                WHEN
                    o.direction = 'forward'
                    AND regexp_matches(api, '(?i)^(sin|cos|tan|exp|exp2|expm1|softmax)_?$')
                    THEN greatest(coalesce(inputs.magnitude, 1), 1)
                WHEN o.direction = 'forward' AND regexp_matches(api, '(?i)^(lgamma|mvlgamma|digamma)_?$')
                    THEN
                        greatest(1, inputs.magnitude * ln(greatest(inputs.magnitude, exp(1))))
                        / coalesce(least(1, nullif(outputs.norm / sqrt(outputs.n), 0)), 1)
                WHEN o.direction = 'forward' AND regexp_matches(api, '(?i)^(__r?pow__|pow_?)$')
                    THEN greatest(1, ln(nullif(outputs.magnitude, 0)) / greatest(1, ln(nullif(inputs.magnitude, 0))))
                WHEN o.direction = 'forward' AND regexp_matches(api, '(?i)^(log_softmax|logsumexp|logaddexp|log|log2|log10)_?$')
                    THEN
                        if(divides_gradients(api), coalesce(inputs.range, 1), greatest(coalesce(inputs.magnitude, 1), 1))
                        / coalesce(least(1, nullif(if(isfinite(outputs.norm), result / sqrt(outputs.n), outputs.magnitude), 0)), 1)
                WHEN solved.number IS NOT NULL THEN greatest(1, solved.matrix * outputs.norm / nullif(solved.wanted, 0))
                WHEN regexp_matches(o.api, '(?i)^(eigh?|linalg_eigh?|svd|linalg_svd|symeig|svd_lowrank|pca_lowrank)$') THEN 1e7
                WHEN o.direction = 'forward' AND regexp_matches(o.api, '(?i)^sqrt_?$')
                    THEN greatest(1, least(sqrt(coalesce(inputs.range, 1)) / 2, 1 / sqrt(nullif(inputs.error, 0))))
                WHEN divergences.weight > 0
                    THEN greatest(1, inputs.magnitude * divergences.weight / coalesce(nullif(result / sqrt(outputs.n), 0), 1))
                WHEN factors.size > 0 AND outputs.norm > 0
                    THEN
                        greatest(sqrt(factors.terms) * factors.size / (outputs.norm / sqrt(outputs.n)), 1)
                        * sqrt(1 + factors.evenness * (factors.rows_together - 1))
                ELSE 1
            END * greatest(1, coalesce(scores.size, 0) / 4) AS condition,
            if(
                outputs.magnitude > 0 AND factors.terms > 0,
                greatest(1, factors.terms * factors.largest_term / outputs.magnitude),
                NULL
            ) AS largest_move
        FROM noise_outputs AS outputs
        JOIN noise_ops AS o USING (number)
        JOIN noise_inputs AS inputs USING (number)
        LEFT JOIN factors USING (number)
        LEFT JOIN solved USING (number)
        LEFT JOIN divergences USING (number)
        LEFT JOIN scores USING (number)
    )
SELECT
    number,
    condition,
    least(getvariable('outright_factor') * condition, largest_move) AS extreme_condition,
    is_passed_on
FROM measured
