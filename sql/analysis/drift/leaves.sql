-- leaves: the selected rows, in golden and in every run, with what was recorded of them.
-- grain: one row of one unit; also the sum of a unit's parameter gradients, if there are several
-- parameters: $runs, golden among them; the view tensors, the table drift_calls
-- The norm of the gradients together is √(sum of norm²), as in clip_grad_norm.
WITH
    found AS MATERIALIZED (
        -- find the few rows first: a condition on every row of the lake costs more
        SELECT
            run,
            step,
            rank,
            called.op,
            module,
            slots,
            coalesce(called.role, tensors.role) AS role,
            row,
            part,
            slot,
            repeat,
            kind,
            type,
            dtype,
            shape,
            max,
            min,
            mean,
            norm,
            value,
            digest
        FROM tensors
        JOIN drift_calls AS called USING (run, step, rank, seq)
        WHERE list_contains($runs, run)
    ),
    rows AS (
        SELECT
            run,
            step,
            rank,
            row,
            if(part = '', '', part || '/') || row_name(op, slot) || if(repeat > 0, '#' || repeat, '') AS name,
            op,
            module,
            role,
            if(kind = 'scalar', 0.0, epsilon_of(dtype)) AS epsilon,
            root_elements_of(shape) AS root_elements,
            if(kind = 'scalar', TRY_CAST(value AS DOUBLE), max) AS max,
            if(kind = 'scalar', TRY_CAST(value AS DOUBLE), min) AS min,
            if(kind = 'scalar', TRY_CAST(value AS DOUBLE), mean) AS mean,
            if(kind = 'scalar', TRY_CAST(value AS DOUBLE), norm) AS norm,
            digest
        FROM found
        WHERE
            (kind = 'tensor' OR (kind = 'scalar' AND type = 'float'))
            AND (
                slots IS NULL
                OR len(list_filter(slots, lambda part: slot = part OR starts_with(slot, part || '.'))) > 0
            )
    )
FROM rows
UNION ALL
SELECT
    run,
    step,
    rank,
    NULL,
    'parameter gradients together',
    NULL,
    NULL,
    'parameters_grad together',
    max(epsilon),
    NULL,
    NULL,
    NULL,
    NULL,
    sqrt(ordered_sum(norm ** 2)),
    NULL
FROM rows
WHERE role = 'parameters_grad' AND norm IS NOT NULL
GROUP BY run, step, rank
HAVING count(*) > 1
