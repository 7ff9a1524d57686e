-- blind: how many tensors of a unit have no statistics, so that nothing can be seen in them.
-- grain: one rank in one step
-- parameters: $run, $step (NULL: all); the view tensors
-- Empty tensors and those of integers, booleans and strings have nothing to see. Of a tensor that cannot be read nothing
-- is known.
SELECT step, rank, count(*) AS blind
FROM tensors
WHERE
    run = $run
    AND ($step IS NULL OR step = $step)
    AND kind = 'tensor'
    AND max IS NULL
    AND coalesce(regexp_matches(lower(dtype), 'float|half|double|complex|hif'), true)
    AND NOT coalesce(list_contains(shape, 0), false)
GROUP BY ALL
