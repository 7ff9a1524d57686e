-- counts: a unit holds as many ops, tensor rows and contents as were read from its dump.
-- grain: one unit with wrong counts
WITH
    op_counts AS (SELECT run, step, rank, count(*) AS ops FROM ops GROUP BY ALL),
    tensor_counts AS (SELECT run, step, rank, count(*) AS tensor_rows FROM tensors GROUP BY ALL),
    content_counts AS (SELECT run, step, rank, count(*) AS contents FROM contents GROUP BY ALL)
SELECT
    dumps.run,
    dumps.step,
    dumps.rank,
    dumps.ops AS ops_read,
    coalesce(op_counts.ops, 0) AS ops,
    dumps.tensor_rows AS tensor_rows_read,
    coalesce(tensor_counts.tensor_rows, 0) AS tensor_rows,
    dumps.contents AS contents_read,
    coalesce(content_counts.contents, 0) AS contents
FROM dumps
LEFT JOIN op_counts USING (run, step, rank)
LEFT JOIN tensor_counts USING (run, step, rank)
LEFT JOIN content_counts USING (run, step, rank)
WHERE
    dumps.ops <> coalesce(op_counts.ops, 0)
    OR dumps.tensor_rows <> coalesce(tensor_counts.tensor_rows, 0)
    OR dumps.contents <> coalesce(content_counts.contents, 0)
