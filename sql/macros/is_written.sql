-- is_written(x): whether a number was written into a program rather than measured: it, or what it lacks to 1 (as in
-- 1 - lr * weight_decay), has at most six significant digits.
CREATE OR REPLACE MACRO is_written(x) AS
length(trim(regexp_replace(printf('%.11e', x), '\.|e.*|-', '', 'g'), '0')) <= 6
OR (x > 0 AND x < 1 AND length(trim(regexp_replace(printf('%.7e', 1 - x), '\.|e.*|-', '', 'g'), '0')) <= 4)
