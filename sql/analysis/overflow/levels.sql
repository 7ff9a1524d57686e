-- levels: the level of ops with an unexpected NaN or inf in an input or output, or whose norm jumps.
-- grain: one op
-- parameters: none; the tables overflow_judged, overflow_jumps
-- level: critical: the inputs are finite, the outputs are not; high: neither is finite, or the norm grows 100 times;
--   medium: the inputs are not finite, the outputs are. Source: msprobe 26.2 (core/overflow_check). A norm that jumps
--   has a level only in a step with NaN or inf: in other steps, square roots and logarithms of small numbers jump
--   without meaning. The gradient of a parameter has no input of its own; if the rank had NaN or inf before, that is
--   its input. NULL if all NaN and inf are expected.
-- bad_in, bad_out: inputs or outputs with unexpected NaN or inf; expected: the reasons for the others
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
            string_agg(DISTINCT expected, '; ' ORDER BY expected) AS expected
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
