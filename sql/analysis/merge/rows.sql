-- rows: a sheet in the long form, with its numbers, in the order of the sheet: all ranks of a row, then the next row.
-- grain: one row of one rank; value is NULL if the cell is not a number; percentages are fractions
-- parameters: $step, $metric; the view merge_sheet
SELECT
    $step::INTEGER AS step,
    column_name[5:]::INTEGER AS rank,
    "NPU Name" AS name,
    $metric AS metric,
    CASE
        WHEN $metric = 'MD5' THEN NULL
        WHEN ends_with(text, '%') THEN try_cast(left(text, -1) AS DOUBLE) / 100
        ELSE try_cast(trim(text) AS DOUBLE)
    END AS value,
    text
FROM (UNPIVOT merge_sheet ON COLUMNS('^rank') INTO NAME column_name VALUE text)
