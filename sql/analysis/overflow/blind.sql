-- blind: the number of tensors of a unit without statistics, whose overflow cannot be detected.
-- grain: one rank in one step
-- parameters: $run; the view tensors
-- Tensors that are empty or of integers, booleans and strings cannot overflow. Tensors that cannot be read are unknown.
SELECT step, rank, count(*) AS blind
FROM tensors
WHERE
    run = $run
    AND kind = 'tensor'
    AND coalesce(max, mean) IS NULL
    AND coalesce(regexp_matches(lower(dtype), 'float|half|double|complex|hif'), true)
    AND NOT coalesce(list_contains(shape, 0), false)
GROUP BY ALL
