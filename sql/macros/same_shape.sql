-- same_shape(target, golden, matched_by): whether two shapes are those of one tensor. Rows that a search paired by
--   values may have different layouts (transposed, flattened), with equally many elements.
CREATE OR REPLACE MACRO same_shape(target, golden, matched_by) AS
if(
    matched_by = 'search',
    coalesce(list_aggregate(target, 'product'), 1) = coalesce(list_aggregate(golden, 'product'), 1),
    target = golden
)
