-- data: pairs the rows that a data mapping names.
-- grain: one pair of a target row and a golden row
-- Rows of one name, as in two parts of a dump, pair the first with the first. A data mapping may name a parameter's gradient without its call number, as dumps before 26.x do.
WITH
    names AS (
        SELECT 'target' AS side, row, name FROM target
        UNION ALL
        SELECT 'golden' AS side, row, name FROM golden
    ),
    known AS (
        SELECT *, row_number() OVER (PARTITION BY side, name ORDER BY row) AS nth
        FROM (
            FROM names
            UNION
            SELECT side, row, regexp_replace(name, '\.parameters_grad\.\d+\.', '.parameters_grad.') AS name FROM names
        )
    )
SELECT
    target.row AS target_row,
    golden.row AS golden_row,
    'data' AS matched_by
FROM data_mapping
JOIN known AS target ON target.side = 'target' AND target.name = data_mapping.target_name
JOIN known AS golden
    ON golden.side = 'golden' AND golden.name = data_mapping.golden_name AND golden.nth = target.nth
QUALIFY
    row_number() OVER (PARTITION BY target.row ORDER BY place) = 1
    AND row_number() OVER (PARTITION BY golden.row ORDER BY place) = 1
