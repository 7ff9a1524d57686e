-- recorded_statistics(max, min, mean, norm): which of the statistics were recorded, as bits, that of max the lowest: set where
-- there is a value, be it NaN.
CREATE OR REPLACE MACRO recorded_statistics("max", "min", mean, norm) AS
(
    ("max" IS NOT NULL)::INTEGER + 2 * ("min" IS NOT NULL)::INTEGER + 4 * (mean IS NOT NULL)::INTEGER
    + 8 * (norm IS NOT NULL)::INTEGER
)::TINYINT
