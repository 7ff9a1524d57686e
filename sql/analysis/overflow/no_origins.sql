-- no_origins: an empty table in place of overflow_origins, for a run without NaN and inf.
-- grain: no rows
SELECT
    NULL::INTEGER AS step,
    NULL::INTEGER AS rank,
    NULL::INTEGER AS seq,
    NULL::VARCHAR AS level,
    NULL::VARCHAR AS name,
    NULL::BIGINT AS bad_in,
    NULL::BIGINT AS bad_out,
    NULL::INTEGER AS kinds_out,
    NULL::VARCHAR AS expected,
    NULL::DOUBLE AS jump,
    NULL::BOOLEAN AS is_later_step,
    NULL::BOOLEAN AS is_held,
    NULL::BOOLEAN AS is_first,
    NULL::BOOLEAN AS is_after_others,
    NULL::VARCHAR AS origin,
    NULL::INTEGER AS source_seq,
    NULL::INTEGER[] AS sources
WHERE false
