-- ops: the ops of one rank that have a place in the whole.
-- grain: one op
-- parameters: $run, $step, $rank
SELECT
    op,
    kind,
    api_type,
    api,
    module_class,
    direction,
    coalesce(call, 0) AS call,
    parent
FROM ops
WHERE run = $run AND step = $step AND rank = $rank AND kind IN ('api', 'module', 'parameters_grad')
ORDER BY seq
