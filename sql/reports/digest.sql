-- digest: a comparison of checksums in msprobe 26.2's md5 layout.
-- grain: one row of the comparison of one (step, rank)
-- parameters: the view cells, with the metrics of this layout
SELECT * EXCLUDE (
    row,
    "NPU max",
    "NPU min",
    "NPU mean",
    "NPU l2norm",
    "Bench max",
    "Bench min",
    "Bench mean",
    "Bench l2norm",
    "Data_name"
)
FROM cells
