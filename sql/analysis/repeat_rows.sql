-- repeat_rows: what repeats of golden differ by, as the lake has it under a name.
-- grain: one tensor of golden
-- parameters: $noise; the view noise
SELECT step, rank, golden_row, golden_seq, name, role, error, stands_out
FROM noise
WHERE noise = $noise
