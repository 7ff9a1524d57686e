-- lake_table: msprobe's table of all ranks of a comparison, whatever its layout.
-- grain: one row of the comparison of one step
-- parameters: $layout (statistics, tensor or digest); the relation cells
SELECT
    row.rank AS rank,
    row.row AS place,
    * EXCLUDE (row, max_relative_cell, max_relative_error_cell),
    if($layout = 'tensor', max_relative_error_cell, max_relative_cell) AS "MaxRelativeErr",
    if("NPU MD5" = "BENCH MD5", "NPU MD5", 'N/A') AS "MD5"
FROM cells
