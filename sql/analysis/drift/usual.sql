-- usual: what to follow if the user names nothing: the parameter gradients, and the loss.
-- grain: one op and slot
-- parameters: $golden; the views ops and tensors, the tables drift_ops and drift_units
-- The loss of a unit of golden is its last 0-d float output of a forward op before the first backward op, or, if no
-- backward op was dumped, the last of all. A name that is the loss of some unit is followed in all units.
WITH
    units AS (
        SELECT DISTINCT
            golden_step AS step,
            golden_rank AS rank
        FROM drift_units
        WHERE golden_step IS NOT NULL
    ),
    backward AS (
        SELECT
            step,
            rank,
            min(seq) AS seq
        FROM ops
        WHERE run = $golden AND direction = 'backward'
        GROUP BY ALL
    ),
    losses AS (
        SELECT
            op,
            slot
        FROM tensors
        JOIN units USING (step, rank)
        LEFT JOIN backward USING (step, rank)
        WHERE
            run = $golden
            AND role = 'output'
            AND kind = 'tensor'
            AND shape = []
            AND epsilon_of(dtype) > 0
            AND tensors.seq < coalesce(backward.seq, 2147483647)
            AND op LIKE '%.forward%'
        QUALIFY row_number() OVER (PARTITION BY step, rank ORDER BY row DESC) = 1
    )
SELECT
    NULL::VARCHAR AS name,
    op,
    module,
    NULL::VARCHAR AS slot,
    NULL::VARCHAR AS role
FROM drift_ops
WHERE op IN (SELECT op FROM ops WHERE run = $golden AND kind = 'parameters_grad')
UNION ALL
SELECT DISTINCT
    NULL,
    op,
    module,
    slot,
    'loss'
FROM losses
JOIN drift_ops USING (op)
