-- parameters: the parameters of two checkpoints that have a finding or differ, errors first.
-- grain: one row of the comparison
-- parameters: the view results (of any number of steps and ranks)
SELECT
    part,
    coalesce(target_op, golden_op) AS name,
    if(target_op <> golden_op, golden_op, NULL) AS golden_name,
    verdict,
    list_transform(messages, lambda message: regexp_replace(message, '^\w+: ', '')) AS messages
FROM results
WHERE len(messages) > 0 OR difference <> 'equal'
ORDER BY verdict <> 'error', verdict = 'skipped', step, rank, row
