-- cells: the cells of a merge for one metric: the metric, or both sides' values if it is missing.
-- grain: one row of one rank
-- parameters: $layout, $metric (a header of msprobe's table); the relation merge_table, which has msprobe's headers, and
--   the number of each row in the sheet
-- A whole number has no `.0`, because a workbook drops it and a cell must be the same wherever it comes from. Nor have
-- infinities the blank of the csv.
WITH
    texts AS (
        SELECT
            rank,
            number,
            if($layout = 'digest', "NPU MD5", "NPU max") AS target,
            if($layout = 'digest', "BENCH MD5", "Bench max") AS golden,
            rtrim(COLUMNS(lambda header: header = $metric), chr(9)) AS cell
        FROM merge_table
    ),
    shown AS (
        SELECT
            *,
            if(
                upper(cell) IN ('N/A', 'UNSUPPORTED', 'NAN', 'NONE'),
                regexp_replace(
                    concat('NPU:', target, '  Bench:', golden),
                    '(NPU:|Bench:) (-?inf)($|  )',
                    '\1\2\3',
                    'g'
                ),
                cell
            ) AS text
        FROM texts
    )
SELECT
    rank,
    number,
    if(
        contains(text, '.0'),
        regexp_replace(text, '(^|NPU:|Bench:)(-?\d+)\.0($|  )', '\1\2\3', 'g'),
        text
    ) AS text
FROM shown
