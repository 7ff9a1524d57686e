-- is_multiplication(api): whether an op multiplies element by element.
CREATE OR REPLACE MACRO is_multiplication(api) AS
regexp_matches(api, '(?i)^(__[ir]?mul__|mul_?|multiply_?)$')
