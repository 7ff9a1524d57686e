-- is_written(x): whether a number was written in a program rather than measured: it has at most six significant digits,
--   or its difference from 1 has (as in 1 - lr * weight_decay).
CREATE OR REPLACE MACRO is_written(x) AS
length(trim(regexp_replace(printf('%.11e', x), '\.|e.*|-', '', 'g'), '0')) <= 6
OR (x > 0 AND x < 1 AND length(trim(regexp_replace(printf('%.7e', 1 - x), '\.|e.*|-', '', 'g'), '0')) <= 4)
