-- bundled_classes: the bundled table of MindSpore's cells with their counterparts among PyTorch's modules.
-- grain: one class
-- parameters: $1 (schemas/data/classes.csv)
SELECT
    row_number() OVER (ORDER BY target_class, golden_class) + (SELECT count(*) FROM class_mapping) AS place,
    true AS is_bundled,
    target_class,
    golden_class
FROM read_csv($1, header = true, all_varchar = true)
