-- is_mask(x, other): whether x, an extreme of a tensor with the other extreme `other`, marks masked elements
--   (finfo.min, -1e9, -10000) instead of being a value. It says nothing about the other elements, and determines the
--   norm and mean.
CREATE OR REPLACE MACRO is_mask(x, other) AS
coalesce(
    CASE
        WHEN isfinite(x) AND (abs(x) >= 1e30 OR (abs(x) >= 5000 AND abs(x) >= 100 * abs(other)))
            THEN x < 0 OR other < 0 OR is_written(x)
    END,
    false
)
