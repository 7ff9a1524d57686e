-- same_dtype(target, golden): whether two dtypes are the same; between frameworks, whether they are of one class, since
--   MindSpore computes in Int32 and Float32 where PyTorch has int64. NULL if a side has none.
CREATE OR REPLACE MACRO same_dtype(target, golden) AS
if(getvariable('cross_framework') = 1, dtype_class(target) = dtype_class(golden), target = golden)
