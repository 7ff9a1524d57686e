-- is_root(x): whether a number is the root of a whole number, or one over it, as a program writes for the scale of an
--   attention. No measured number is, to twelve digits.
CREATE OR REPLACE MACRO is_root(x) AS
abs(greatest(x * x, 1 / nullif(x * x, 0)) - round(greatest(x * x, 1 / nullif(x * x, 0))))
< 1e-12 * greatest(x * x, 1 / nullif(x * x, 0))
