-- transfer_batched: the sends and receives of the sampled batches.
-- grain: one P2POp of a batch
-- parameters: the tables transfer_samples and transfer_parts
WITH
    p2p_inputs AS (
        SELECT
            leaves.step,
            leaves.rank,
            leaves.seq,
            samples.op,
            leaves.slot,
            if(leaves.extra->>'op' LIKE '%send%', 'send', 'recv') AS kind,
            leaves.extra->>'group_id' AS group_id,
            TRY_CAST(leaves.extra->>'peer' AS INTEGER) AS peer,
            TRY_CAST(leaves.extra->>'tag' AS INTEGER) AS tag,
            leaves.row,
            leaves.rest,
            is_function,
            is_waited_for
        FROM transfer_parts AS leaves
        JOIN transfer_samples AS samples USING (step, rank, seq)
        WHERE
            samples.kind = 'batch'
            AND leaves.role = 'input'
            AND TRY_CAST(leaves.extra->>'peer' AS INTEGER) IS NOT NULL
    )
SELECT
    p2p_inputs.*,
    outputs.row AS output
FROM p2p_inputs
LEFT JOIN transfer_parts AS outputs
    ON outputs.step = p2p_inputs.step
    AND outputs.rank = p2p_inputs.rank
    AND outputs.seq = p2p_inputs.seq
    AND outputs.role = 'output'
    AND p2p_inputs.rest = if(is_function = 1, outputs.key, outputs.rest)
