-- results_whole: whether a results file has its rows in order, and each once with an outcome.
-- grain: one row
-- parameters: $1 (file); the table paired
SELECT
    coalesce(bool_and(row = file_row_number), true) AS in_order,
    count(*) = (SELECT count(*) FROM paired) AND count(*) = count(outcome) AND count(*) = count(verdict) AS each_once
FROM read_parquet($1, file_row_number = true)
