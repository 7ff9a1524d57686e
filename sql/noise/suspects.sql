-- suspects: the ops that stand out of rounding noise, the cause first (schemas/suspects.yaml).
-- grain: one op; the first 64
-- parameters: the tables noise_ops, noise_leaves, noise_evidence, noise_errors, noise_added, noise_shifts,
--   noise_near_shifts, noise_passed_shifts, noise_functions, noise_laws, noise_gradients, noise_floors, noise_makers,
--   noise_repeat and noise_wiring; thresholds
-- A parameter's gradient is a long sum that flipped masks move, so its error must be as large as itself, or most
--   gradients must differ although their inputs agree, as when gradients are not set to zero. An op of the forward pass
--   whose output error exceeds the rounding of the coarsest chip, while its input error does not, needs a lower score.
-- Evidence that rounding cannot produce comes first, with the ops far above their kind, in program order; if a module
--   and an op in it both show it, the op, unless the op shows it in the backward pass only. Then come the other errors:
--   forward before backward, and of the ops with the highest scores, or an error as large as that of the highest, the
--   earliest.
-- module: for a backward op that of its forward op, because backward hooks of modules may run late
WITH
    -- an op of one side that counts in place, as a normalisation does in training: its result goes nowhere
    counters AS (
        SELECT number
        FROM (
            SELECT o.number, is_float
            FROM noise_ops AS o
            JOIN noise_leaves AS l ON l.target_seq = o.target_seq
            WHERE o.side = 'target' AND is_in_place(o.api)
            UNION ALL
            SELECT o.number, is_float
            FROM noise_ops AS o
            JOIN noise_leaves AS l ON l.golden_seq = o.golden_seq
            WHERE o.side = 'golden' AND is_in_place(o.api)
        )
        GROUP BY number
        HAVING NOT bool_or(is_float)
    ),
    certain AS (
        SELECT
            number,
            evidence,
            row,
            CASE
                WHEN evidence = 'missing' AND number IN (FROM counters) THEN 2
                -- what went wrong forwards may leave no gradient
                WHEN evidence = 'stopped' THEN 2
                -- a zero or two may come by chance
                WHEN evidence = 'zeros' AND target_zeros <= 2 AND bool_or(evidence IN ('argument', 'missing', 'wiring')) OVER () THEN 2
                ELSE 1
            END AS class
        FROM noise_evidence
        LEFT JOIN (SELECT row, target_zeros FROM noise_leaves WHERE target_zeros > 0) AS leaves USING (row)
        WHERE evidence <> 'apart'
        QUALIFY
            row_number() OVER (
                PARTITION BY number
                ORDER BY list_position(['argument', 'missing', 'wiring', 'source', 'zeros', 'stopped', 'made', 'nonfinite'], evidence), row
            ) = 1
    ),
    shifts AS (
        FROM (
            FROM noise_shifts
            UNION ALL
            FROM noise_near_shifts
            UNION ALL
            FROM noise_passed_shifts
            UNION ALL
            FROM noise_functions
            UNION ALL
            SELECT number, shift, usual, unit, score, members, is_law
            FROM noise_laws
        )
        QUALIFY row_number() OVER (PARTITION BY number ORDER BY score DESC, members DESC, unit) = 1
    ),
    -- products of two programs of which no factor could be compared: what their norm tells may come from before
    unknown AS (
        SELECT o.number
        FROM noise_ops AS o
        LEFT JOIN noise_leaves AS l
            ON l.number = o.number AND l.is_input AND l.is_float AND l.is_paired AND NOT picks_rows(o.api, l.slot)
        WHERE getvariable('cross_framework') <> 0 AND o.rounding = 'matmul' AND l.row IS NULL
    ),
    -- the norm of an op whose inputs err far more than ops round tells nothing, unless it moves further than they do
    shifted AS (
        SELECT
            number,
            'shift' AS evidence,
            NULL::INTEGER AS row,
            if((phase = 'forward' AND number NOT IN (FROM unknown)) OR is_law, 1, 2) AS class
        FROM shifts
        JOIN noise_errors USING (number)
        JOIN (SELECT number, phase FROM noise_ops) AS o USING (number)
        CROSS JOIN (SELECT floor, is_bitwise FROM noise_floors WHERE rounding = 'matmul') AS products
        WHERE
            score >= getvariable('outstanding_score')
            AND (
                is_law
                OR error_in < least(0.05, 50 * floor)
                OR (error_in < 0.2 AND abs(shift - usual) > error_in)
                -- many of its kind take as much and stay where they are
                OR (error_in < 0.05 AND members >= 16 AND score >= 2 * getvariable('certain_score'))
            )
            -- where nothing rounds differently, made tells forwards, and a difference of more than 16 spacings backwards
            AND (NOT is_bitwise OR (phase = 'backward' AND is_low_precision(spacing)))
    ),
    added AS (
        SELECT
            number,
            'added' AS evidence,
            NULL::INTEGER AS row,
            CASE
                -- a shift, which always comes first, may be what this brought about
                WHEN score >= getvariable('certain_score') AND (upper_out >= 1e-3 OR lower_out > 10 * most) AND phase = 'forward' THEN 1
                WHEN shifted.class = 1 THEN 1
                WHEN noise_gradients.number IS NOT NULL THEN 2
                WHEN score >= 0.6 * max(score) OVER phases THEN 2
                -- what comes of it may stand out further: norms hide an error from statistics
                WHEN error_out >= 0.3 * arg_max(error_out, (score, error_out)) OVER phases THEN 2
                ELSE 3
            END AS class
        FROM noise_added
        JOIN (SELECT number, spacing, upper_out FROM noise_errors) AS made USING (number)
        LEFT JOIN noise_gradients USING (number)
        LEFT JOIN shifted USING (number)
        WHERE
            noise_gradients.number IS NOT NULL
            OR (
                score >= getvariable('outstanding_score')
                - if(
                    phase = 'forward'
                    AND error_in < most
                    AND error_out > if(is_low_precision(spacing), greatest(8 * spacing, most), getvariable('outright_factor') * most)
                    AND lower_out > most,
                    1,
                    0
                )
                AND (NOT is_gradient OR error_out > 0.3)
                AND error_in < 0.05
                AND error_out > getvariable('floor_factor') * kind_floor
            )
        WINDOW phases AS (PARTITION BY phase = 'forward')
    ),
    every AS (
        FROM certain
        UNION ALL
        FROM added ANTI JOIN certain USING (number)
        UNION ALL
        FROM shifted ANTI JOIN certain USING (number) ANTI JOIN added USING (number)
    ),
    -- a repeat of golden shows it, too
    repeated AS (
        SELECT number
        FROM every
        JOIN noise_ops USING (number)
        JOIN noise_repeat USING (golden_seq)
        LEFT JOIN noise_errors USING (number)
        WHERE noise_repeat.stands_out OR (evidence = 'added' AND noise_errors.error_out <= getvariable('repeat_growth') * noise_repeat.error_out)
    ),
    standing AS (
        FROM every
        ANTI JOIN repeated USING (number)
    ),
    -- runs that came apart before they were recorded differ in their parameters, where nothing else tells
    named AS (
        FROM standing
        UNION ALL
        SELECT number, 'source', row, 1
        FROM noise_evidence
        WHERE evidence = 'apart' AND NOT EXISTS (FROM standing)
    )
SELECT
    (
        row_number() OVER (
            ORDER BY
                class > 1,
                o.phase <> 'forward',
                if(class = 1, NOT o.is_leaf, NULL),
                class,
                o.place,
                o.golden_seq,
                o.target_seq
        )
    )::INTEGER AS nth,
    o.place,
    o.target_seq::INTEGER AS target_seq,
    o.golden_seq::INTEGER AS golden_seq,
    o.op,
    coalesce(regexp_replace(called.parent, '\.forward\.(\d+)$', '.backward.\1'), o.parent) AS module,
    o.phase,
    evidence,
    named.row::INTEGER AS row,
    e.error_in,
    if(evidence = 'shift', abs(shifts.shift - shifts.usual), e.error_out) AS error_out,
    CASE
        WHEN evidence = 'shift' THEN shifts.unit
        WHEN floors.is_bitwise THEN 0
        ELSE expected * 10 ** a.usual
    END AS expected,
    CASE evidence WHEN 'added' THEN a.score WHEN 'shift' THEN shifts.score END AS score,
    if(evidence = 'shift', shifts.members, a.members)::INTEGER AS members,
    if(evidence = 'wiring', tm.target_seq, NULL)::INTEGER AS target_maker,
    if(evidence = 'wiring', gm.golden_seq, NULL)::INTEGER AS golden_maker,
    CASE
        WHEN floors.is_bitwise THEN 'bits'
        WHEN repeat.golden_seq IS NOT NULL THEN 'repeat'
        WHEN evidence = 'shift' AND shifts.is_law AND shifts.members = 0 THEN 'law'
        WHEN if(evidence = 'shift', shifts.members >= 4, a.members >= 3) THEN 'kind'
        ELSE 'rounding'
    END AS floor
FROM named
JOIN noise_ops AS o USING (number)
LEFT JOIN noise_ops AS called
    ON o.direction = 'backward'
    AND o.op_kind = 'api'
    AND called.direction = 'forward'
    AND called.call_key = o.call_key
    AND called.side = o.side
LEFT JOIN noise_errors AS e USING (number)
LEFT JOIN noise_added AS a USING (number)
LEFT JOIN shifts ON shifts.number = named.number
LEFT JOIN noise_floors AS floors ON floors.rounding = o.rounding
LEFT JOIN noise_repeat AS repeat ON repeat.golden_seq = o.golden_seq
LEFT JOIN (FROM noise_makers SEMI JOIN noise_wiring USING (row)) AS m ON m.row = named.row
LEFT JOIN noise_ops AS tm ON tm.number = list_max(m.target_makers)
LEFT JOIN noise_ops AS gm ON gm.number = list_max(m.golden_makers)
ORDER BY nth
LIMIT 64
