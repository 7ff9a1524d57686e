-- experts: what the parameters of its experts are, in one number, for each rank that has some.
-- grain: one rank
-- parameters: $run, $step
-- hash of a hash: see parameter_signatures.sql
SELECT
    ops.rank,
    coalesce(
        CAST(
            bit_xor(hash(hash(tensors.op, slot, content, digest, shape, max, min, mean, norm)))
            FILTER (WHERE tensors.op IS NOT NULL)
            AS VARCHAR
        ),
        ''
    ) AS signature
FROM ops
LEFT JOIN tensors
    ON tensors.run = ops.run
    AND tensors.step = ops.step
    AND tensors.rank = ops.rank
    AND tensors.op = ops.op
    AND tensors.role = 'parameters'
    AND tensors.kind = 'tensor'
WHERE ops.run = $run AND ops.step = $step AND ops.kind = 'module' AND regexp_matches(ops.api, '\bexperts\.[0-9]')
GROUP BY ops.rank
ORDER BY ops.rank
