-- is_mask(x, other): whether the extreme x of a tensor, whose other extreme is `other`, stands for what is masked out
-- (finfo.min, -1e9, -10000) and not for a value: it says nothing about the rest, and the norm and mean are its own.
CREATE OR REPLACE MACRO is_mask(x, other) AS
coalesce(isfinite(x) AND (abs(x) >= 1e30 OR (abs(x) >= 5000 AND abs(x) >= 100 * abs(other))), false)
