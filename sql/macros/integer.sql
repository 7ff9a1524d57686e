-- integer_of(kind, exact, value): the exact integer that a row gives for a statistic, or NULL.
CREATE OR REPLACE MACRO integer_of(kind, exact, value) AS
CASE kind
    WHEN 'tensor' THEN exact::HUGEINT
    WHEN 'scalar' THEN CASE WHEN regexp_full_match(value, '-?[0-9]{1,38}') THEN try_cast(value AS HUGEINT) END
END
