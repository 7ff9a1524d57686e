-- no_births: an empty table in place of overflow_births, for a run without NaN and inf.
-- grain: no rows
SELECT
    NULL::INTEGER AS step,
    NULL::INTEGER AS rank,
    NULL::INTEGER AS seq,
    NULL::VARCHAR AS op,
    NULL::VARCHAR AS level,
    NULL::VARCHAR AS origin,
    NULL::VARCHAR AS module,
    NULL::VARCHAR AS code,
    NULL::VARCHAR[] AS came_in,
    NULL::VARCHAR[] AS came_out,
    NULL::VARCHAR AS advice,
    NULL::BOOLEAN AS is_after_others
WHERE false
