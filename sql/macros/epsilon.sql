-- epsilon_of(dtype): the spacing of the dtype's numbers at 1; 0 for exact types.
-- Source: IEEE 754 and OCP 8-bit floating point: 2^-p with p bits of fraction.
CREATE OR REPLACE MACRO epsilon_of(dtype) AS
CASE
    WHEN element_type(dtype) IN ('float64', 'complex128', 'double') THEN 2.0 ** -52
    WHEN element_type(dtype) IN ('float32', 'complex64', 'float') THEN 2.0 ** -23
    WHEN element_type(dtype) IN ('float16', 'half') THEN 2.0 ** -10
    WHEN element_type(dtype) = 'bfloat16' THEN 2.0 ** -7
    WHEN element_type(dtype) LIKE 'float8_e4m3%' THEN 2.0 ** -3
    WHEN element_type(dtype) LIKE 'float8_e5m2%' THEN 2.0 ** -2
    ELSE 0.0
END
