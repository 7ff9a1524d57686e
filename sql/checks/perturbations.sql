-- perturbations: what changes of inputs did, for every call that is equal to one that ran, with the status in a word.
-- grain: see schemas/perturbations.yaml
-- parameters: $device; the tables calls and answered
SELECT
    (row_number() OVER (ORDER BY calls.step, calls.rank, calls.seq, answered.number)) - 1 AS place,
    calls.run, calls.step, calls.rank, calls.seq,
    if(answered.direction = 'backward', calls.backward_op, calls.op) AS op,
    calls.api, calls.ran, $device AS device,
    answered.* EXCLUDE (key, number),
    CASE
        WHEN answered.is_consistent IS NULL THEN 'skip'
        WHEN answered.is_consistent THEN 'stable'
        WHEN answered.mode = 'no_change' THEN 'random'
        WHEN answered.mode = 'to_cpu' THEN 'differs'
        ELSE 'unstable'
    END AS status
FROM calls
JOIN answered USING (key)
ORDER BY place
