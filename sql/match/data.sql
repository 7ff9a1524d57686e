-- data: pairs the rows that a data mapping names.
-- grain: one pair of a target row and a golden row
SELECT
    target.row AS target_row,
    golden.row AS golden_row,
    'data' AS matched_by
FROM data_mapping
JOIN target ON target.name = data_mapping.target_name
JOIN golden ON golden.name = data_mapping.golden_name
QUALIFY
    row_number() OVER (PARTITION BY target.row ORDER BY place) = 1
    AND row_number() OVER (PARTITION BY golden.row ORDER BY place) = 1
