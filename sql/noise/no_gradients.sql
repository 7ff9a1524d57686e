-- no_gradients: an empty table in place of gradients, where nothing rounds differently.
-- grain: one op
SELECT
    NULL::BIGINT AS number,
    NULL::DOUBLE AS shift,
    NULL::DOUBLE AS usual
WHERE false
