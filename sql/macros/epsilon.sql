-- epsilon_of(dtype): the spacing of the dtype's numbers at 1; 0 for exact types.
-- Source: IEEE 754 and OCP 8-bit floating point: 2^-p with p bits of fraction.
-- Looked up, as each branch of a CASE would repeat the argument, and plans would grow with it.
CREATE OR REPLACE MACRO epsilon_of(dtype) AS
coalesce(
    MAP {
        'float64': 2.0 ** -52, 'complex128': 2.0 ** -52, 'double': 2.0 ** -52,
        'float32': 2.0 ** -23, 'complex64': 2.0 ** -23, 'float': 2.0 ** -23,
        'float16': 2.0 ** -10, 'half': 2.0 ** -10,
        'bfloat16': 2.0 ** -7,
        'float8_e4m3fn': 2.0 ** -3, 'float8_e4m3fnuz': 2.0 ** -3, 'float8_e4m3b11fnuz': 2.0 ** -3,
        'float8_e5m2': 2.0 ** -2, 'float8_e5m2fnuz': 2.0 ** -2
    }[element_type(dtype)],
    0.0
)
