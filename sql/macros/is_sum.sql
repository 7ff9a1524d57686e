-- is_sum(api): whether the result of an API consists of its inputs or of their sum, so that it errs no more than they do
-- together.
CREATE OR REPLACE MACRO is_sum(api) AS
regexp_matches(api, '(?i)__i?r?add__|__i?r?sub__|\badd_?\b|\bsub_?\b|\bcat\b|concat|stack|lerp|biasadd')
