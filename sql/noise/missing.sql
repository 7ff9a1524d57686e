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
    copies AS (
        SELECT number, side, target_seq, golden_seq
        FROM noise_ops
        WHERE side <> 'pair' AND regexp_matches(api, '(?i)dropout|drop_?path|^(clone|contiguous|detach)_?$')
    ),
    tensors AS (
        SELECT number, target_slot AS slot, target_shape AS shape, (target_max, target_min, target_norm, target_mean) AS statistics
        FROM copies
        JOIN paired USING (target_seq)
        WHERE side = 'target'
        UNION ALL
        SELECT number, golden_slot, golden_shape, (golden_max, golden_min, golden_norm, golden_mean)
        FROM copies
        JOIN paired USING (golden_seq)
        WHERE side = 'golden'
    ),
    -- a dropout of nothing, or a copy, gives what it takes
    passing AS (
        SELECT taken.number
        FROM tensors AS taken
        JOIN tensors AS given ON given.number = taken.number AND given.shape = taken.shape
        WHERE taken.slot = 'input.0' AND given.slot = 'output.0' AND taken.statistics = given.statistics
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
