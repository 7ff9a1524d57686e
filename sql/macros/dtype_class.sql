-- dtype_class(dtype): float, int, bool or complex, whatever the width; any other dtype is its own class.
CREATE OR REPLACE MACRO dtype_class(dtype) AS
CASE
    WHEN regexp_matches(element_type(dtype), '^(b?float|half|double|hifloat)') THEN 'float'
    WHEN regexp_matches(element_type(dtype), '^(u?int|long|short)') THEN 'int'
    ELSE regexp_extract(element_type(dtype), '^(bool|complex|.*)', 1)
END
