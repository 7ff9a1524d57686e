-- is_activation(api): whether an API or module class is a function of each element that is about a multiple of the element
-- where it is not flat: then its norm moves as that of its input, or less.
CREATE OR REPLACE MACRO is_activation(api) AS
regexp_matches(api, '(?i)relu|gelu|silu|swish|mish|elu|glu|tanh')
