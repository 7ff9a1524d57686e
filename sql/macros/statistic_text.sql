-- statistic_text(name, number, other): a statistic with enough digits to distinguish it from the other side's.
CREATE OR REPLACE MACRO statistic_text(name, number, other) AS
name || ' '
|| CASE
    WHEN number = other OR other IS NULL OR printf('%.5g', number) <> printf('%.5g', other) THEN printf('%.5g', number)
    WHEN printf('%.8g', number) <> printf('%.8g', other) THEN printf('%.8g', number)
    ELSE number::VARCHAR
END
