-- rounding_status(m): whether the error of one leaf is what rounding explains; `m` is a row of measures with its class.
--   exact results have none, rounded ones at most one unit of the last place; of others the error is counted in units
--   of their own rounding and of what rounded inputs do (typical_error, largest_error). Limits: schemas/data/rounding_limits.csv
CREATE OR REPLACE MACRO rounding_status(m) AS
CASE
    WHEN m.nonfinite_mismatches > 0 THEN 'error'
    WHEN m.typical_error IS NULL THEN 'pass'
    WHEN m.signed_zeros > m.most_signed_zeros THEN 'error'
    WHEN m.largest_ulp > m.most_ulp THEN 'error'
    WHEN m.typical_error > m.most_typical THEN 'error'
    WHEN m.largest_error > m.most_largest THEN 'error'
    ELSE 'pass'
END
