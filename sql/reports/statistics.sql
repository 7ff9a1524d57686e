-- statistics: a comparison of statistics in msprobe 26.2's summary layout.
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
    "Max diff",
    "Min diff",
    "Mean diff",
    "L2norm diff",
    max_relative_cell AS "MaxRelativeErr",
    "MinRelativeErr",
    "MeanRelativeErr",
    "NormRelativeErr",
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
    "Part"
FROM cells
