-- parameter_signatures: what the parameters of each rank are, in one number.
-- grain: one rank
-- parameters: $run, $step
SELECT
    rank,
    CAST(bit_xor(hash(op, slot, content, digest, shape, max, min, mean, norm)) AS VARCHAR) AS signature
FROM tensors
WHERE run = $run AND step = $step AND role = 'parameters' AND kind = 'tensor'
GROUP BY rank
ORDER BY rank
