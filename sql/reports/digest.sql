-- digest: a comparison of checksums in msprobe 26.2's md5 layout.
-- grain: one row of the comparison of one (step, rank)
-- parameters: the view cells
SELECT
    "NPU Name",
    "Bench Name",
    "NPU Dtype",
    "Bench Dtype",
    "NPU Tensor Shape",
    "Bench Tensor Shape",
    "NPU Requires_grad",
    "Bench Requires_grad",
    "NPU MD5",
    "BENCH MD5",
    "Requires_grad Consistent",
    "Result",
    "Err_message",
    "NPU_Stack_Info",
    "Part"
FROM cells
