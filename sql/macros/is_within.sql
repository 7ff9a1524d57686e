-- is_within(diff, scale): whether |diff| is at most scale, both finite; a diff of 0 is within any scale.
-- DuckDB orders NaN and inf above all numbers, so a plain <= would accept them.
CREATE OR REPLACE MACRO is_within(diff, scale) AS
coalesce(diff = 0 OR (isfinite(diff) AND isfinite(scale) AND abs(diff) <= scale), false)
