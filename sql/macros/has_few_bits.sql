-- has_few_bits(x): whether a number has at most eleven binary digits, so that cutting it to those of tf32 or float16 leaves it
--   as it is.
CREATE OR REPLACE MACRO has_few_bits(x) AS
coalesce(x / 2.0 ** (floor(log2(abs(nullif(x, 0)))) - 10) % 1 = 0, x = 0)
