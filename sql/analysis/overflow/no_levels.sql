-- no_levels: an empty table in place of overflow_levels, for a run without NaN and inf.
-- grain: no rows
SELECT
    NULL::INTEGER AS step,
    NULL::INTEGER AS rank,
    NULL::INTEGER AS seq,
    NULL::VARCHAR AS level,
    NULL::VARCHAR AS name,
    NULL::BIGINT AS bad_in,
    NULL::BIGINT AS bad_out,
    NULL::INTEGER AS kinds_in,
    NULL::INTEGER AS kinds_out,
    NULL::BOOLEAN AS is_gradient,
    NULL::INTEGER AS producer,
    NULL::VARCHAR AS expected,
    NULL::DOUBLE AS jump
WHERE false
