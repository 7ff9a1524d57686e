-- no_repeat_rows: an empty table in place of repeat_rows, if there are no repeats of golden.
-- grain: one tensor of golden
SELECT
    NULL::INTEGER AS step,
    NULL::INTEGER AS rank,
    NULL::INTEGER AS golden_row,
    NULL::INTEGER AS golden_seq,
    NULL::VARCHAR AS name,
    NULL::VARCHAR AS role,
    NULL::DOUBLE AS error,
    NULL::BOOLEAN AS stands_out,
    NULL::STRUCT(repeat VARCHAR, max DOUBLE, min DOUBLE, mean DOUBLE, norm DOUBLE)[] AS statistics
WHERE false
