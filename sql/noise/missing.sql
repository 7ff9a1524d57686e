-- missing: ops that only one run has.
-- grain: one op
-- parameters: the tables paired, verdicts and noise_ops
WITH
    -- an op of which something is judged (it is not a step inside what the other run does in one, nor to be expected), and
    -- that has a counterpart by its name at most: an op that does what several do there pairs with all of them
    judged AS (
        SELECT target_seq FROM paired JOIN verdicts USING (row) WHERE verdict <> 'skipped' AND target_seq IS NOT NULL
        EXCEPT
        SELECT target_seq FROM paired WHERE matched_by <> 'exact'
    ),
    golden_judged AS (
        SELECT golden_seq FROM paired JOIN verdicts USING (row) WHERE verdict <> 'skipped' AND golden_seq IS NOT NULL
        EXCEPT
        SELECT golden_seq FROM paired WHERE matched_by <> 'exact'
    ),
    -- A module in which ops were recorded may have another name, or none, in the other run: if they are there, nothing is
    -- missing. It takes the gradients of its parameters with it.
    absent_modules AS (
        SELECT module_of(op) FROM noise_ops WHERE side <> 'pair' AND op_kind = 'module' AND direction = 'forward'
    )
SELECT number
FROM noise_ops
WHERE
    is_leaf
    AND NOT (direction = 'parameters_grad' AND module_of(op) IN (FROM absent_modules))
    AND (
        (side = 'target' AND target_seq IN (FROM judged))
        OR (side = 'golden' AND golden_seq IN (FROM golden_judged))
    )
