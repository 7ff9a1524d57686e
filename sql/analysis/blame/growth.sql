-- growth: by how much ops of one kind usually amplify the error of their inputs.
-- grain: one API or module path, in one direction
-- parameters: the tables blame_ops and blame_incoming
-- growth: the median of output error over incoming error, at least 1, of the ops where both are finite and positive; a
--   kind with fewer than three such ops has no row
SELECT
    kind,
    api_key,
    direction,
    greatest(median(output_error / incoming_error), 1) AS growth
FROM blame_ops
JOIN blame_incoming USING (step, rank, target_seq)
WHERE
    side = 'pair'
    AND isfinite(incoming_error)
    AND isfinite(output_error)
    AND incoming_error > 0
    AND output_error > 0
GROUP BY ALL
HAVING count(*) >= 3
