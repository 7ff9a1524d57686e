-- writes_at(api): whether an op writes to places that are given to it. Which ones may hang on a choice outside the program that
-- is recorded, as of which box is which.
CREATE OR REPLACE MACRO writes_at(api) AS
regexp_matches(api, '(?i)^(__setitem__|index_put_?)$')
