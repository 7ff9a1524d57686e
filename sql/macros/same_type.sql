-- same_type(target, golden): whether the types of two values are the same; between frameworks their last names count
--   (torch.dtype, mindspore.dtype).
CREATE OR REPLACE MACRO same_type(target, golden) AS
if(
    getvariable('cross_framework') = 1,
    split_part(target, '.', -1) = split_part(golden, '.', -1),
    target IS NOT DISTINCT FROM golden
)
