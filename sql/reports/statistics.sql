-- statistics: a comparison of statistics in msprobe 26.2's summary layout.
-- grain: one row of the comparison of one (step, rank)
-- parameters: the view cells, with the metrics of this layout
SELECT * EXCLUDE (row, "NPU MD5", "BENCH MD5", "Data_name")
FROM cells
