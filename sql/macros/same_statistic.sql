-- same_statistic(target, golden): whether two recorded statistics are equal. Between frameworks a statistic that only
--   one side records is not a difference: MindSpore records mean and norm of integers, PyTorch does not.
CREATE OR REPLACE MACRO same_statistic(target, golden) AS
if(
    getvariable('cross_framework') = 1,
    coalesce(target = golden, true),
    target IS NOT DISTINCT FROM golden
)
