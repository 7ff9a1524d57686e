-- lake_table: msprobe's table of all ranks of a comparison, whatever its layout.
-- grain: one row of the comparison of one step
-- parameters: the relation cells
SELECT
    row.*,
    * EXCLUDE (row),
    if("NPU MD5" = "BENCH MD5", "NPU MD5", 'N/A') AS "MD5"
FROM cells
