-- order_kept: whether the rows of a results file stand in it in their order.
-- grain: one row
-- parameters: $1 (file)
SELECT coalesce(bool_and(row = file_row_number), true) AS order_kept
FROM read_parquet($1, file_row_number = true)
