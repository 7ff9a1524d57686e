-- is_normalisation(api): whether an API or module class gives its result a fixed size, so that its statistics hardly depend
-- on what went in.
CREATE OR REPLACE MACRO is_normalisation(api) AS
regexp_matches(api, '(?i)(layer|batch|group|instance|rms)_?norm')
