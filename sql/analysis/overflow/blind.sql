-- blind: how many tensors of a unit have no statistics, so that nothing can be seen in them.
-- grain: one rank in one step
-- parameters: $run, $step (NULL: all); the view tensors
-- Empty tensors and those of integers, booleans and strings have nothing to see.
SELECT step, rank, count(*) AS blind
FROM tensors
WHERE
    run = $run
    AND ($step IS NULL OR step = $step)
    AND kind = 'tensor'
    AND max IS NULL
    AND regexp_matches(lower(dtype), 'float|half|double|complex|hif')
    AND NOT list_contains(shape, 0)
GROUP BY ALL
