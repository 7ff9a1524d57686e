-- parameter_signatures: what the parameters of each rank are, in one number.
-- grain: one rank
-- parameters: $run, $step
-- A hash of several values is linear in the last one, so that equal values cancel out; the hash of a hash is not.
SELECT
    rank,
    CAST(bit_xor(hash(hash(op, slot, content, digest, shape, max, min, mean, norm))) AS VARCHAR) AS signature
FROM tensors
WHERE run = $run AND step = $step AND role = 'parameters' AND kind = 'tensor'
GROUP BY rank
ORDER BY rank
