-- file_table: the rows of a result file to merge, under their headers.
-- grain: one row of the file
-- parameters: $rank, $apis (a pattern that the row's name must match); the relation file_texts with the place of each
--   row
SELECT
    $rank AS rank,
    *,
    if("NPU MD5" = "BENCH MD5", "NPU MD5", 'N/A') AS "MD5"
FROM file_texts
WHERE regexp_matches(if("NPU Name" = 'N/A', "Bench Name", "NPU Name"), $apis)
