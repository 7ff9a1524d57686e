-- perturbations: what changes of inputs did, for every call that is equal to one that ran, with the status in a word.
-- grain: see schemas/perturbations.yaml
-- parameters: $device; the tables calls and answered
SELECT
    (row_number() OVER (ORDER BY calls.step, calls.rank, calls.seq, answered.number)) - 1 AS place,
    calls.run, calls.step, calls.rank, calls.seq,
    if(answered.direction = 'backward', calls.backward_op, calls.op) AS op,
    calls.api, calls.ran, $device AS device,
    answered.* EXCLUDE (key, number),
    perturbation_status(answered.mode, answered.is_consistent) AS status
FROM calls
JOIN answered USING (key)
ORDER BY place
