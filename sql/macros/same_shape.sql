-- same_shape(target, golden, matched_by): whether two shapes are those of one tensor. Rows that may have different
--   layouts (macros/may_be_relaid) need equally many elements.
CREATE OR REPLACE MACRO same_shape(target, golden, matched_by) AS
if(
    may_be_relaid(matched_by),
    coalesce(list_aggregate(target, 'product'), 1) = coalesce(list_aggregate(golden, 'product'), 1),
    target = golden
)
