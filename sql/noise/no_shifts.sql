-- no_shifts: an empty table in place of shifts, near_shifts, passed_shifts, functions and laws, where nothing rounds differently.
-- grain: one op
SELECT
    NULL::BIGINT AS number,
    NULL::DOUBLE AS shift,
    NULL::DOUBLE AS usual,
    NULL::DOUBLE AS unit,
    NULL::DOUBLE AS score,
    NULL::BIGINT AS members,
    NULL::BOOLEAN AS is_law
WHERE false
