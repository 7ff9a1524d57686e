-- may_be_relaid(matched_by): whether two rows may be one tensor in two layouts (transposed, flattened): a search paired
--   them by values, or they are two implementations and the user's data mapping says that the rows are one.
CREATE OR REPLACE MACRO may_be_relaid(matched_by) AS
coalesce(matched_by = 'search' OR matched_by = 'data' AND getvariable('cross_framework') = 1, false)
