-- is_reduction(api): whether an API adds up the elements that it takes, or averages them.
CREATE OR REPLACE MACRO is_reduction(api) AS
regexp_matches(api, '(?i)^(nan)?(sum|mean)$')
