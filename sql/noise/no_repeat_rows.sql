-- no_repeat_rows: the rows of noise/repeat_rows where no noise was asked for.
-- grain: one tensor of golden
SELECT
    NULL::INTEGER AS golden_row,
    NULL::INTEGER AS golden_seq,
    NULL::VARCHAR AS role,
    NULL::DOUBLE AS error,
    NULL::BOOLEAN AS stands_out
WHERE false
