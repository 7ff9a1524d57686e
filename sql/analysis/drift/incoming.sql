-- incoming: the size of what enters a module in the backward pass, which scales its parameter gradients.
-- grain: one op of parameter gradients of one unit of golden
-- parameters: $golden; the views ops and tensors, the tables drift_units and drift_leaves
-- A parameter's gradient is a sum over these inputs. If that sum is 0 in exact arithmetic (the bias of a key
-- projection), only rounding remains, which is not a measure of its own error.
WITH
    gradients AS (
        SELECT DISTINCT step, rank, op FROM drift_leaves WHERE run = $golden AND role = 'parameters_grad'
    ),
    modules AS (
        SELECT step, rank, op, api, module_class
        FROM ops
        JOIN gradients USING (step, rank, op)
        WHERE run = $golden
    ),
    backward AS (
        SELECT
            step,
            rank,
            modules.op,
            seq
        FROM ops
        JOIN modules USING (step, rank, api, module_class)
        WHERE run = $golden AND direction = 'backward'
    )
SELECT
    step,
    rank,
    backward.op,
    max(norm) AS norm
FROM tensors
JOIN backward USING (step, rank, seq)
WHERE run = $golden AND role = 'input' AND isfinite(norm)
GROUP BY ALL
