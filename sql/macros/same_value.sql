-- same_value(target, golden): whether the texts of two values are the same; between frameworks also whether they name
-- the same dtype (torch.float32, Float32).
CREATE OR REPLACE MACRO same_value(target, golden) AS
if(
    getvariable('cross_framework') = 1,
    element_type(target) IS NOT DISTINCT FROM element_type(golden),
    target IS NOT DISTINCT FROM golden
)
