-- suspects: the ops that stand out of rounding noise, the cause first (schemas/suspects.yaml).
-- grain: one op; the first 64
-- parameters: the tables noise_ops, noise_evidence, noise_errors, noise_added, noise_floors, noise_makers,
--   noise_repeat and noise_repeat_rows
-- A parameter's gradient is a long sum that flips of masks move, so it has to be off by its own size; or most of them are
--   off though what they are made of agrees, as where they were not set to zero.
-- Evidence that no rounding makes comes first, and ops that stand far above it, the earliest op first; of one that a module and an op in it both show, the
--   op. Then what the errors say: forward before backward, and of the ops that stand highest above their kind the
--   earliest.
WITH
    certain AS (
        SELECT number, evidence, row, 1 AS class
        FROM noise_evidence
        QUALIFY
            row_number() OVER (
                PARTITION BY number
                ORDER BY list_position(['argument', 'missing', 'wiring', 'source', 'made'], evidence)
            ) = 1
    ),
    gradients AS (
        SELECT count(*) >= 3 AND quantile_disc(gain, 0.25) >= 1.5 AS are_off
        FROM noise_added
        WHERE is_gradient
    ),
    added AS (
        SELECT
            number,
            'added' AS evidence,
            NULL::INTEGER AS row,
            CASE
                WHEN score >= 5 AND error_out >= 1e-3 AND phase = 'forward' THEN 1
                WHEN score >= 0.6 * max(score) OVER (PARTITION BY phase = 'forward') THEN 2
                ELSE 3
            END AS class
        FROM noise_added
        CROSS JOIN gradients
        WHERE
            if(is_gradient AND gradients.are_off, gain >= 1.5, score >= 3 AND (NOT is_gradient OR error_out > 0.3))
            AND error_in < 0.05
            AND error_out > 3 * kind_floor
    ),
    every AS (
        FROM certain
        UNION ALL
        FROM added ANTI JOIN certain USING (number)
    ),
    -- a repeat of golden shows it, too
    repeated AS (
        SELECT number
        FROM every
        JOIN noise_ops USING (number)
        JOIN noise_repeat USING (golden_seq)
        LEFT JOIN noise_errors USING (number)
        WHERE noise_repeat.stands_out OR (evidence = 'added' AND noise_errors.error_out <= 10 * noise_repeat.error_out)
        UNION
        SELECT every.number
        FROM every
        JOIN noise_leaves USING (row)
        JOIN noise_repeat_rows USING (golden_row)
        WHERE evidence = 'source' AND noise_leaves.error <= 10 * noise_repeat_rows.error
    )
SELECT
    (
        row_number() OVER (
            ORDER BY
                class > 1,
                if(class = 1, NOT o.is_leaf, o.phase <> 'forward'),
                class,
                o.place
        )
    )::INTEGER AS nth,
    o.place,
    o.target_seq::INTEGER AS target_seq,
    o.golden_seq::INTEGER AS golden_seq,
    o.op,
    o.parent AS module,
    o.phase,
    evidence,
    every.row::INTEGER AS row,
    e.error_in,
    e.error_out,
    if(floors.is_bitwise, 0, expected * 10 ** usual) AS expected,
    if(evidence = 'added', score, NULL) AS score,
    members::INTEGER AS members,
    if(evidence = 'wiring', tm.target_seq, NULL)::INTEGER AS target_maker,
    if(evidence = 'wiring', gm.golden_seq, NULL)::INTEGER AS golden_maker,
    CASE
        WHEN floors.is_bitwise THEN 'bits'
        WHEN repeat.golden_seq IS NOT NULL THEN 'repeat'
        WHEN members >= 3 THEN 'kind'
        ELSE 'rounding'
    END AS floor
FROM every
ANTI JOIN repeated USING (number)
JOIN noise_ops AS o USING (number)
LEFT JOIN noise_errors AS e USING (number)
LEFT JOIN noise_added AS a USING (number)
LEFT JOIN noise_floors AS floors ON floors.rounding = o.rounding
LEFT JOIN noise_repeat AS repeat ON repeat.golden_seq = o.golden_seq
LEFT JOIN noise_makers AS m ON m.row = every.row
LEFT JOIN noise_ops AS tm ON tm.number = list_max(m.target_makers)
LEFT JOIN noise_ops AS gm ON gm.number = list_max(m.golden_makers)
ORDER BY nth
LIMIT 64
