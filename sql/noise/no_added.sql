-- no_added: an empty table in place of added, where nothing rounds differently: what sql/noise/suspects reads of it.
-- grain: one op
SELECT
    NULL::BIGINT AS number,
    NULL::VARCHAR AS phase,
    NULL::BOOLEAN AS is_gradient,
    NULL::DOUBLE AS error_in,
    NULL::DOUBLE AS error_out,
    NULL::DOUBLE AS lower_out,
    NULL::DOUBLE AS kind_floor,
    NULL::DOUBLE AS most,
    NULL::DOUBLE AS expected,
    NULL::DOUBLE AS usual,
    NULL::BIGINT AS members,
    NULL::DOUBLE AS score
WHERE false
