-- is_written_element(x): whether an element of a tensor is a number that was written in a program: it has at most six
-- significant digits. float32 holds too few of one next to 1 to tell whether its difference from 1 was written.
CREATE OR REPLACE MACRO is_written_element(x) AS
length(trim(regexp_replace(printf('%.11e', try_cast(x AS FLOAT)::VARCHAR::DOUBLE), '\.|e.*|-', '', 'g'), '0')) <= 6
