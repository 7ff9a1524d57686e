-- unit_contents(folder): where the tensor contents of one unit lie.
-- grain: one content
-- parameters: unit_folder; `folder` is the pattern that means it
-- reference: what tensor_metrics reads it by
CREATE OR REPLACE MACRO unit_contents(folder) AS TABLE
SELECT
    content,
    {
        'file': CASE WHEN file LIKE '/%' THEN file ELSE getvariable('unit_folder') || '/' || file END,
        'offset': "offset",
        'length': length,
        'dtype': dtype,
        'shape': shape,
        'strides': strides
    } AS reference
FROM read_parquet(folder || '/contents.parquet', hive_partitioning = false)
