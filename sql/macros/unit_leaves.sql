-- unit_leaves(folder): the leaves of one unit, each with where its content lies.
-- grain: one leaf, as in tensors, in the order of the dump
-- number: the value of a scalar as a number, where it is one; a text is none, whatever it spells
CREATE OR REPLACE MACRO unit_leaves(folder) AS TABLE
WITH
    content_rows AS (
        SELECT
            content,
            {
                'file': CASE WHEN file LIKE '/%' THEN file ELSE folder || '/' || file END,
                'offset': "offset",
                'length': length,
                'dtype': dtype,
                'shape': shape,
                'strides': strides
            } AS reference
        FROM read_parquet(folder || '/contents.parquet', hive_partitioning = false)
    )
SELECT
    leaf.* EXCLUDE (op, name, section, path, fields),
    CASE WHEN leaf.kind = 'scalar' AND leaf.type <> 'str' THEN try_cast(leaf.value AS DOUBLE) END AS number,
    content_rows.reference
FROM read_parquet(folder || '/tensors.parquet', hive_partitioning = false) AS leaf
LEFT JOIN content_rows USING (content)
