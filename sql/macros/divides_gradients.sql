-- divides_gradients(api): whether the gradient of an API is what comes in over its input, or over a power of it.
CREATE OR REPLACE MACRO divides_gradients(api) AS
regexp_matches(api, '(?i)^(log(2|10)?|r?sqrt|reciprocal)_?$')
