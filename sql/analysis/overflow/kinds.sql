-- nonfinite_kinds(max, min, mean): which values besides finite numbers a tensor (or number) has.
-- A sum of 1 (NaN), 2 (inf), 4 (-inf), 8 (every element is finite and only the mean is infinite); 0: all finite; NULL:
-- nothing was recorded. A mean of NaN between inf and -inf does not describe the elements. Where the mean alone was
-- recorded, it does.
CREATE OR REPLACE TEMP MACRO nonfinite_kinds(max, min, mean) AS
CASE
    WHEN coalesce(max, min, mean) IS NULL THEN NULL
    WHEN isfinite(max) AND isfinite(min) AND isinf(mean) THEN 8
    ELSE
        coalesce(
            isnan(max) OR isnan(min)
            OR (isnan(mean) AND NOT coalesce(max = 'inf'::DOUBLE AND min = '-inf'::DOUBLE, false)),
            false
        )::INTEGER
        + 2 * coalesce(coalesce(max, mean) = 'inf'::DOUBLE OR min = 'inf'::DOUBLE, false)::INTEGER
        + 4 * coalesce(max = '-inf'::DOUBLE OR coalesce(min, mean) = '-inf'::DOUBLE, false)::INTEGER
END
