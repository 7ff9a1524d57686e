-- is_cast(whole, number): whether an integer may be what a cast leaves of a number: less than one is taken from it, and what is
-- not finite becomes the first or last integer.
CREATE OR REPLACE MACRO is_cast(whole, number) AS
coalesce(abs(whole - number) < 1 OR (NOT isfinite(number) AND abs(whole) >= 2147483647), false)
