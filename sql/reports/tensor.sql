-- tensor: a comparison of saved tensors in msprobe 26.2's layout.
-- grain: one row of the comparison of one (step, rank)
-- parameters: the view cells, with the metrics of this layout
SELECT * EXCLUDE (row, "NPU MD5", "BENCH MD5")
FROM cells
