-- verifications: the outcomes of the calls that ran, for every call that is equal to one of them.
-- grain: one result of a call (of the forward or the backward; run here or recorded), or a call that cannot run
-- parameters: the tables calls and answered
SELECT
    (row_number() OVER (ORDER BY calls.step, calls.rank, calls.seq, answered.number)) - 1 AS place,
    calls.run, calls.step, calls.rank, calls.seq,
    if(answered.direction = 'backward', calls.backward_op, calls.op) AS op,
    calls.api, calls.ran, calls.key,
    answered.* EXCLUDE (key, number)
FROM calls
JOIN answered USING (key)
ORDER BY place
