-- multiplies_once(api): whether an API of matrix products cuts each factor once at most, where a chip cuts them: recurrences,
-- attention and einsum, which may have many factors, are several products.
CREATE OR REPLACE MACRO multiplies_once(api) AS
NOT regexp_matches(api, '(?i)lstm|gru|rnn|attention|multi_?head|einsum')
