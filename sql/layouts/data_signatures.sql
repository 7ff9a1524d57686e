-- data_signatures: what each rank was given, in one number: the first integer tensor that one of its ops takes, or else its first input.
-- grain: one rank
-- parameters: $run, $step
SELECT
    rank,
    CAST(
        arg_min(
            hash(content, digest, shape, max, min, mean, norm),
            (NOT regexp_matches(lower(dtype), 'int'), row)
        ) AS VARCHAR
    ) AS signature
FROM tensors
WHERE
    run = $run
    AND step = $step
    AND role = 'input'
    AND kind = 'tensor'
    AND len(shape) > 1
    AND op LIKE '%forward%'
    AND op NOT LIKE 'Distributed.%'
GROUP BY rank
ORDER BY rank
