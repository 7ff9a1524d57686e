-- number(kind, letter, statistic, value): what a row gives for one of the statistics, as a number.
-- A tensor gives the statistic, a scalar its value; NULL for what is no number (bool, text, objects, null).
CREATE OR REPLACE MACRO number_of(kind, letter, statistic, value) AS
CASE kind
    WHEN 'tensor' THEN CASE WHEN letter IN ('f', 'i', 's') THEN statistic END
    WHEN 'scalar' THEN try_cast(value AS DOUBLE)
END
