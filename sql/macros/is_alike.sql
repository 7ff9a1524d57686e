-- is_alike(norm, max, min, other_norm, other_max, other_min): whether two tensors may be one, but for rounding: their norms agree
-- to a thousandth, and their extremes to a hundredth of the larger one.
CREATE OR REPLACE MACRO is_alike(norm, "max", "min", other_norm, other_max, other_min) AS
coalesce(
    abs(norm - other_norm) <= 1e-3 * other_norm
    AND greatest(abs("max" - other_max), abs("min" - other_min)) <= 1e-2 * greatest(abs(other_max), abs(other_min)),
    false
)
