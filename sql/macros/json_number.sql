-- json_number(number): a DOUBLE as JSON, and a text for NaN and infinities, which JSON lacks.
CREATE OR REPLACE TEMP MACRO json_number(number) AS
CASE
    WHEN isnan(number) THEN '"NaN"'::JSON
    WHEN isinf(number) THEN if(number > 0, '"Infinity"', '"-Infinity"')::JSON
    ELSE to_json(number)
END
