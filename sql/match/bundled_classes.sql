-- bundled_classes: the bundled table of MindSpore's cells with their counterparts among PyTorch's modules.
-- grain: one class
-- parameters: $1 (schemas/data/classes.csv)
SELECT
    1000000 + row_number() OVER (ORDER BY target_class, golden_class) AS place,
    target_class,
    golden_class
FROM read_csv($1, header = true, all_varchar = true)
