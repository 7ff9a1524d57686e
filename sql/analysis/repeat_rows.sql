-- repeat_rows: the differences between repeats of golden that the lake has under a name.
-- grain: one tensor of golden
-- parameters: $noise; the view noise
SELECT step, rank, golden_row, golden_seq, name, role, error, stands_out, statistics
FROM noise
WHERE noise = $noise
