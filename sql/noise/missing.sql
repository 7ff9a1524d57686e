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
    -- a dropout of nothing, or a copy, gives what it takes
    passing AS (
        SELECT o.number
        FROM noise_ops AS o
        JOIN paired AS taken ON taken.target_seq = o.target_seq AND taken.target_slot = 'input.0'
        JOIN paired AS given ON given.target_seq = o.target_seq AND given.target_slot = 'output.0'
        WHERE
            o.side = 'target'
            AND regexp_matches(o.api, '(?i)dropout|drop_?path|^(clone|contiguous|detach)_?$')
            AND taken.target_shape = given.target_shape
            AND (taken.target_max, taken.target_min, taken.target_norm, taken.target_mean)
            = (given.target_max, given.target_min, given.target_norm, given.target_mean)
        UNION ALL
        SELECT o.number
        FROM noise_ops AS o
        JOIN paired AS taken ON taken.golden_seq = o.golden_seq AND taken.golden_slot = 'input.0'
        JOIN paired AS given ON given.golden_seq = o.golden_seq AND given.golden_slot = 'output.0'
        WHERE
            o.side = 'golden'
            AND regexp_matches(o.api, '(?i)dropout|drop_?path|^(clone|contiguous|detach)_?$')
            AND taken.golden_shape = given.golden_shape
            AND (taken.golden_max, taken.golden_min, taken.golden_norm, taken.golden_mean)
            = (given.golden_max, given.golden_min, given.golden_norm, given.golden_mean)
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
    AND number NOT IN (FROM passing)
    -- an optimizer in one kernel records no ops; what it does otherwise shows in the next step
    AND (phase <> 'optimizer' OR EXISTS (FROM noise_ops WHERE phase = 'optimizer' AND side = 'pair'))
    AND NOT (direction = 'parameters_grad' AND module_of(op) IN (FROM absent_modules))
    AND (
        (side = 'target' AND target_seq IN (FROM judged))
        OR (side = 'golden' AND golden_seq IN (FROM golden_judged))
    )
