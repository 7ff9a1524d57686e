-- levels: how bad the ops are that have an input or output that is not finite and not expected, or whose norm jumps.
-- grain: one op
-- parameters: none; the tables overflow_judged, overflow_jumps
-- level: critical: inputs finite, outputs not; high: both not, or a norm 100 times as large; medium: inputs not,
--   outputs finite. Source: msprobe 26.2 (core/overflow_check). A norm that jumps has a level only in a step that has NaN or inf:
--   in a step that has none, the square roots and logarithms of small numbers do so and mean nothing. The gradient of a
--   parameter has no input of its own; where the rank had NaN or inf before, that came in. NULL where all that is not
--   finite is expected.
-- bad_in, bad_out: inputs or outputs that are not finite and not expected; expected: why the others are
WITH
    ops AS (
        SELECT
            step,
            rank,
            seq,
            any_value(name) AS name,
            count(*) FILTER (side = 'in' AND expected IS NULL) AS bad_in,
            count(*) FILTER (side = 'out' AND expected IS NULL) AS bad_out,
            coalesce(bit_or(kinds) FILTER (side = 'out' AND expected IS NULL), 0) AS kinds_out,
            coalesce(bit_or(kinds) FILTER (side = 'in' AND expected IS NULL), 0) AS kinds_in,
            bool_or(role = 'parameters_grad') AS is_gradient,
            min(producer) FILTER (side = 'in' AND expected IS NULL) AS producer,
            any_value(expected) AS expected
        FROM overflow_judged
        GROUP BY ALL
    ),
    firsts AS (
        SELECT step, rank, min(seq) AS first_seq
        FROM ops
        WHERE bad_in > 0 OR bad_out > 0
        GROUP BY ALL
    )
SELECT
    step,
    rank,
    seq,
    CASE
        WHEN bad_out > 0 AND bad_in = 0 AND NOT (is_gradient AND seq > first_seq) THEN 'critical'
        WHEN bad_out > 0 OR (jump > getvariable('overflow_jump') AND step IN (SELECT step FROM firsts)) THEN 'high'
        WHEN bad_in > 0 THEN 'medium'
    END AS level,
    name,
    coalesce(bad_in, 0) AS bad_in,
    coalesce(bad_out, 0) AS bad_out,
    coalesce(kinds_in, 0) AS kinds_in,
    coalesce(kinds_out, 0) AS kinds_out,
    coalesce(is_gradient, false) AS is_gradient,
    producer,
    expected,
    jump
FROM ops
FULL JOIN overflow_jumps USING (step, rank, seq)
LEFT JOIN firsts USING (step, rank)
