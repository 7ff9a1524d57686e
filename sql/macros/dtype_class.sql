-- dtype_class(dtype): float, int, bool or complex, whatever the width; another dtype is a class of its own.
CREATE OR REPLACE MACRO dtype_class(dtype) AS
CASE
    WHEN regexp_matches(element_type(dtype), '^(b?float|half|double|hifloat)') THEN 'float'
    WHEN regexp_matches(element_type(dtype), '^(u?int|long|short)') THEN 'int'
    ELSE regexp_extract(element_type(dtype), '^(bool|complex|.*)', 1)
END
