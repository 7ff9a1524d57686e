-- unit(folder): the tensor rows of one unit, each with what its op is called and where its content lies.
-- grain: one leaf, as in tensors, in the order of the dump
-- number: the call number that pairs calls; backward calls are numbered anew in order of appearance, because a
--         framework numbers them in the order in which they happen to run (facts: msprobe 26.2 does the same)
CREATE OR REPLACE MACRO unit(folder) AS TABLE
WITH
    op_rows AS (
        SELECT
            seq,
            kind AS op_kind,
            api_type,
            api,
            module_class,
            direction,
            call,
            stem,
            parent,
            stack,
            CASE direction
                WHEN 'backward' THEN row_number() OVER (PARTITION BY stem ORDER BY seq) - 1
                ELSE coalesce(call, 0)
            END AS number
        FROM read_parquet(folder || '/ops.parquet')
    ),
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
        FROM read_parquet(folder || '/contents.parquet')
    )
SELECT
    leaf.* EXCLUDE (fields),
    op_rows.* EXCLUDE (seq),
    content_rows.reference
FROM read_parquet(folder || '/tensors.parquet') AS leaf
JOIN op_rows USING (seq)
LEFT JOIN content_rows USING (content)
