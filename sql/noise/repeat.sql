-- repeat: the gain of golden's ops in its repeats.
-- grain: one op of golden
-- parameters: the tables noise_repeat_rows, noise_nearest and noise_ops
-- gain: decades of the output error above the input error, which counts as at least 1e-7; 0 if a repeat replaces
--   golden, because its error then says nothing about the two sides
-- replaced: in that case, the error that is left of golden's: a fiftieth of that of the repeat; less in an op that is no
--   matrix product, if less is left where the program begins
WITH
    nearness AS (
        SELECT count(*) > 0 AS is_near, greatest(0.002, least(0.02, 5 * max(nearness))) AS share FROM noise_nearest
    )
SELECT
    golden_seq,
    if(is_near, 0, coalesce(max(error) FILTER (WHERE role IN ('input', 'parameters')), 0)) AS error_in,
    if(is_near, 0, coalesce(max(error) FILTER (WHERE role NOT IN ('input', 'parameters')), 0)) AS error_out,
    greatest(log10(greatest(error_out, 1e-8) / greatest(error_in, 1e-7)), 0) AS gain,
    if(
        is_near,
        if(bool_or(rounding = 'matmul'), 0.02, share)
        * coalesce(max(error) FILTER (WHERE role NOT IN ('input', 'parameters')), 0),
        0
    ) AS replaced,
    bool_or(stands_out) AS stands_out
FROM noise_repeat_rows
LEFT JOIN noise_ops USING (golden_seq)
CROSS JOIN nearness
GROUP BY golden_seq, is_near, share
