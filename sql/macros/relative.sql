-- relative_of(diff, b): |diff / b|; 0 if diff is 0, infinite if only b is 0, diff itself if it is NULL or not finite.
-- Source: msprobe 26.2 (core/compare/acc_compare.py), which has no epsilon.
CREATE OR REPLACE MACRO relative_of(diff, b) AS
CASE
    WHEN diff = 0 THEN 0.0::DOUBLE
    WHEN diff IS NULL OR NOT isfinite(diff) THEN diff
    WHEN b = 0 THEN 'inf'::DOUBLE
    ELSE abs(diff / b)
END
