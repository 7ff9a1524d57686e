-- is_attention(api): whether an API averages values by the scores of queries and keys.
CREATE OR REPLACE MACRO is_attention(api) AS
regexp_matches(api, '(?i)attention')
