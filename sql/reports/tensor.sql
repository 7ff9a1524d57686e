-- tensor: a comparison of saved tensors in msprobe 26.2's layout.
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
    "Cosine",
    "EucDist",
    "MaxAbsErr",
    max_relative_error_cell AS "MaxRelativeErr",
    "One Thousandth Err Ratio",
    "Five Thousandths Err Ratio",
    "NPU max",
    "NPU min",
    "NPU mean",
    "NPU l2norm",
    "Bench max",
    "Bench min",
    "Bench mean",
    "Bench l2norm",
    "Requires_grad Consistent",
    "Result",
    "Err_message",
    "NPU_Stack_Info",
    "Data_name",
    "Part"
FROM cells
