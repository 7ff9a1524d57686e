-- table_standard(api_standard, dtype, has_float8): the standard that msprobe's tables choose for a result;
--   `api_standard` is what schemas/data/standards.csv says of the API, NULL where it does not name it.
CREATE OR REPLACE MACRO table_standard(api_standard, dtype, has_float8) AS
CASE
    WHEN dtype LIKE 'float8%' THEN 'ulp'
    WHEN has_float8 THEN 'absolute'
    WHEN dtype NOT IN ('float16', 'bfloat16', 'float32', 'float64', 'complex64', 'complex128') THEN 'binary'
    ELSE coalesce(api_standard, 'benchmark')
END
