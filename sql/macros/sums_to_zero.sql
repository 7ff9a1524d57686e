-- sums_to_zero(api): whether the elements of a gradient that an API or module class gives cancel in each row or channel: its
-- result does not change where all of them grow alike.
CREATE OR REPLACE MACRO sums_to_zero(api) AS
regexp_matches(api, '(?i)^((log_?)?softmax|cross_?entropy(loss)?|(layer|batch|group|instance)_?norm\w*)$')
