-- same_statistic(target, golden): whether two recorded statistics are equal. Between frameworks one that only one side
-- records is no difference: MindSpore has mean and norm of integers, PyTorch has not.
CREATE OR REPLACE MACRO same_statistic(target, golden) AS
if(
    getvariable('cross_framework') = 1,
    coalesce(target = golden, true),
    target IS NOT DISTINCT FROM golden
)
