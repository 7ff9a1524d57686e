-- is_written_element(x): whether an element of a tensor is a number that was written in a program, which float32 holds with
-- digits of its own.
CREATE OR REPLACE MACRO is_written_element(x) AS
is_written(try_cast(x AS FLOAT)::VARCHAR::DOUBLE)
