-- is_alike(norm, max, min, other_norm, other_max, other_min, precision): whether two tensors may be one, but for rounding: their
-- norms agree to `precision`, and their extremes to ten times that of the larger one.
CREATE OR REPLACE MACRO is_alike(norm, "max", "min", other_norm, other_max, other_min, precision) AS
coalesce(
    abs(norm - other_norm) <= precision * other_norm
    AND greatest(abs("max" - other_max), abs("min" - other_min)) <= 10 * precision * greatest(abs(other_max), abs(other_min)),
    false
)
