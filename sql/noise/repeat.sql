-- repeat: the gain of golden's ops in its repeats.
-- grain: one op of golden
-- parameters: the tables noise_repeat_rows and noise_nearest
-- gain: decades of the output error above the input error, which counts as at least 1e-7; 0 if a repeat replaces
--   golden, because its error then says nothing about the two sides
-- replaced: in that case, the largest error of a repeat; it is trusted to a fiftieth of that
-- left_over: the share of it that is left between the repeat and the target where the program begins, five times
WITH
    nearness AS (
        SELECT count(*) > 0 AS is_near, least(0.02, 5 * max(nearness)) AS left_over FROM noise_nearest
    )
SELECT
    golden_seq,
    if(is_near, 0, coalesce(max(error) FILTER (WHERE role IN ('input', 'parameters')), 0)) AS error_in,
    if(is_near, 0, coalesce(max(error) FILTER (WHERE role NOT IN ('input', 'parameters')), 0)) AS error_out,
    greatest(log10(greatest(error_out, 1e-8) / greatest(error_in, 1e-7)), 0) AS gain,
    if(is_near, coalesce(max(error) FILTER (WHERE role NOT IN ('input', 'parameters')), 0), 0) AS replaced,
    bool_or(stands_out) AS stands_out,
    left_over
FROM noise_repeat_rows
CROSS JOIN nearness
GROUP BY golden_seq, is_near, left_over
