-- is_root(x): whether a number is the root of a whole number below 1e8, or one over it, as a program writes for the scale
--   of an attention. No measured number is, to twelve digits; of larger ones every number is near enough to a whole one.
CREATE OR REPLACE MACRO is_root(x) AS
greatest(x * x, 1 / nullif(x * x, 0)) < 1e8
AND abs(greatest(x * x, 1 / nullif(x * x, 0)) - round(greatest(x * x, 1 / nullif(x * x, 0))))
< 1e-12 * greatest(x * x, 1 / nullif(x * x, 0))
