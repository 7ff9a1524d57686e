-- flips: ops such as a top-k, an argmax or a comparison whose decision flipped although their inputs differ by rounding
--   only.
-- grain: one op, before any that stands out of rounding noise
-- parameters: $comparison, $steps and $ranks (lists; empty: all); the view results, the table noise_ends
-- margin: a decision flips only if the values that it chose between differ by at most twice the error of the inputs;
--   relative to the largest of them
-- order: step, rank, seq
WITH
    ops AS (
        SELECT
            step,
            rank,
            target_seq AS seq,
            any_value(target_op) AS op,
            max(error) FILTER (WHERE role <> 'output' AND epsilon_of(target_dtype) > 0) AS error_in,
            coalesce(bool_and(difference IN ('equal', 'noise')) FILTER (WHERE role <> 'output'), false) AS is_given_noise,
            coalesce(
                bool_or(difference IN ('different', 'noise')) FILTER (WHERE role = 'output' AND epsilon_of(target_dtype) = 0),
                false
            ) AS decides_otherwise
        FROM results
        SEMI JOIN noise_ends USING (step, rank)
        WHERE comparison = $comparison AND target_kind = 'tensor' AND golden_kind = 'tensor' AND target_seq IS NOT NULL
        GROUP BY step, rank, target_seq
    )
SELECT step, rank, seq, op, error_in, 2 * error_in AS margin
FROM ops
JOIN noise_ends USING (step, rank)
WHERE
    decides_otherwise
    AND is_given_noise
    AND error_in > 0
    AND seq < noise_ends.place
    AND (len($steps::INTEGER[]) = 0 OR list_contains($steps::INTEGER[], step))
    AND (len($ranks::INTEGER[]) = 0 OR list_contains($ranks::INTEGER[], rank))
ORDER BY step, rank, seq
