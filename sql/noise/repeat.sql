-- repeat: what ops of golden gain in its repeats.
-- grain: one op of golden
-- parameters: the table noise_repeat_rows
-- gain: decades of the error that comes out above the one that comes in, which counts as 1e-7 at least
SELECT
    golden_seq,
    coalesce(max(error) FILTER (WHERE role IN ('input', 'parameters')), 0) AS error_in,
    coalesce(max(error) FILTER (WHERE role NOT IN ('input', 'parameters')), 0) AS error_out,
    greatest(log10(greatest(error_out, 1e-8) / greatest(error_in, 1e-7)), 0) AS gain,
    bool_or(stands_out) AS stands_out
FROM noise_repeat_rows
GROUP BY golden_seq
