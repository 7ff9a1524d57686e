-- results_whole: whether a results file has its rows in order, and each once with an outcome.
-- grain: one row
-- parameters: $1 (file), $2 (how many rows are paired)
SELECT
    coalesce(bool_and(row = file_row_number), true) AS in_order,
    count(*) = $2 AND count(*) = count(outcome) AND count(*) = count(verdict) AS each_once
FROM read_parquet($1, file_row_number = true)
