-- statistic_text(name, number, other): a statistic with enough digits to distinguish it from the other side's. It says so
--   where only the other side recorded it.
CREATE OR REPLACE MACRO statistic_text(name, number, other) AS
if(
    number IS NULL AND other IS NOT NULL,
    'no ' || name,
    name || ' '
    || CASE
        WHEN number = other OR other IS NULL OR printf('%.5g', number) <> printf('%.5g', other) THEN printf('%.5g', number)
        WHEN printf('%.8g', number) <> printf('%.8g', other) THEN printf('%.8g', number)
        ELSE number::VARCHAR
    END
)
