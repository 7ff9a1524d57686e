-- relative_of(diff, b): |diff / b|; 0 where diff is 0, infinite where only b is 0, diff itself where it is not finite or
-- there is none.
-- Source: msprobe 26.2 (core/compare/acc_compare.py), which has no epsilon.
CREATE OR REPLACE MACRO relative_of(diff, b) AS
CASE
    WHEN diff = 0 THEN 0.0::DOUBLE
    WHEN diff IS NULL OR NOT isfinite(diff) THEN diff
    WHEN b = 0 THEN 'inf'::DOUBLE
    ELSE abs(diff / b)
END
