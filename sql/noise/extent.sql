-- extent: how far the noise of this comparison reaches.
-- grain: one row
-- parameters: the tables noise_ops, noise_suspects, noise_floors, noise_errors, noise_leaves, differences and paired
-- is_rounding: ops round differently in the two runs; or they do not, but differences by row say little: the first suspect is
--   paired by its name with another call, takes the output of another op, or takes a tensor that shows in the backward pass
--   only, in no value or type before but for a few spacings, as one that is not trained; or one run has modules that the
--   other has not; or both runs are of low precision, where a small error is a few spacings, and either an op stands out or
--   none errs by more than the coarsest chip rounds there; or something rounds, and only the optimizer shows more. Then
--   suspects decide what differs first.
-- ends: the place of the first op that stands out, infinite if none does
-- error: three times the error that ops add; if nothing rounds differently, or digests alone cannot tell, no difference
--   is noise because of it
WITH
    askew AS (
        SELECT count(*) > 0 AS is_askew
        FROM noise_suspects AS s
        JOIN paired AS p ON p.golden_seq = s.golden_seq AND p.target_seq IS NOT NULL
        WHERE s.nth = 1 AND s.evidence = 'missing' AND s.target_seq IS NULL
    ),
    taking AS (
        SELECT count(*) > 0 AS is_taking
        FROM noise_suspects AS s
        JOIN paired AS p ON p.row = s.row
        WHERE
            s.nth = 1
            AND (
                s.evidence = 'wiring'
                OR (
                    s.evidence = 'argument'
                    AND s.phase = 'forward'
                    AND 'tensor' IN (p.target_kind, p.golden_kind)
                    AND NOT EXISTS (
                        FROM noise_leaves
                        JOIN differences USING (row)
                        WHERE noise_leaves.phase = 'forward' AND NOT is_input AND difference = 'different'
                    )
                    AND NOT EXISTS (FROM paired WHERE role = 'output' AND target_dtype <> golden_dtype)
                )
            )
    ),
    -- modules with other names, as in a wrapper or where a function took their place: the ops in them are there
    renamed AS (
        SELECT
            EXISTS (
                SELECT module_of(op)
                FROM noise_ops
                WHERE op_kind = 'module' AND direction = 'forward'
                GROUP BY module_of(op)
                HAVING count(DISTINCT side) = 1 AND bool_and(side <> 'pair')
            )
            AND (EXISTS (FROM noise_suspects) OR NOT EXISTS (FROM noise_leaves WHERE differs)) AS is_renamed
    ),
    -- something rounds, but few ops do, as where a batch has another order: gradients that cancel then differ by any factor, which
    -- only the optimizer shows
    rounded AS (
        SELECT
            NOT EXISTS (FROM noise_suspects)
            AND EXISTS (FROM noise_leaves WHERE differs AND phase <> 'optimizer')
            AND NOT EXISTS (
                FROM differences
                JOIN noise_leaves USING (row)
                WHERE difference = 'different' AND noise_leaves.phase IS DISTINCT FROM 'optimizer'
            ) AS is_rounded
    ),
    known AS (
        SELECT count(*) > 0 AS are_errors FROM noise_errors
    ),
    precision AS (
        SELECT
            coalesce(bool_or(target_dtype = golden_dtype AND is_low_precision(epsilon_of(target_dtype))), false)
            AND (
                (SELECT count(*) > 0 FROM noise_suspects)
                OR (
                    SELECT coalesce(max(error) <= getvariable('coarsest_low'), false)
                    FROM noise_leaves
                    WHERE phase <> 'optimizer' AND op_is_leaf
                )
            ) AS is_low
        FROM paired
        WHERE target_dtype IS NOT NULL
    ),
    -- 16 bits hide most of what rounds before them, and what follows in full precision, as an optimizer's quotients, shows it
    kinds AS (
        SELECT
            is_bitwise AND NOT is_rounded AND NOT (is_low AND NOT EXISTS (FROM noise_suspects)) AS are_bits,
            max(floor) AS floor
        FROM noise_floors
        CROSS JOIN rounded
        CROSS JOIN precision
        GROUP BY are_bits
    )
SELECT
    NOT are_bits OR is_askew OR is_taking OR is_renamed OR is_low AS is_rounding,
    if(
        are_bits OR NOT are_errors, '-inf', coalesce((SELECT place FROM noise_suspects WHERE nth = 1), 'inf')
    )::DOUBLE AS ends,
    if(are_bits OR NOT are_errors, -1, getvariable('floor_factor') * floor) AS error
FROM kinds
CROSS JOIN askew
CROSS JOIN taking
CROSS JOIN renamed
CROSS JOIN known
CROSS JOIN precision
