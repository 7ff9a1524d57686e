-- cells: a comparison's rows as texts, under the headers of msprobe 26.2's result tables.
-- grain: one row of the comparison of one (step, rank)
-- order: that of results, which its file keeps, so nothing here joins or sorts
-- The xor mode has the value of a single number in place of a digest.
-- parameters: the views stacks and metric_cells, which adds the cells of the metrics to cell_texts
--   (lakeprobe/metrics.py)
WITH
    stack_texts AS (
        SELECT
            list(
                '[' || array_to_string(list_transform(frames, lambda frame: cell_text(frame)), ', ') || ']'
                ORDER BY stack
            ) AS texts
        FROM stacks
    )
SELECT
    row,
    COLUMNS('^shown (.*)$') AS "\1",
    n_max AS "NPU max",
    n_min AS "NPU min",
    n_mean AS "NPU mean",
    n_norm AS "NPU l2norm",
    b_max AS "Bench max",
    b_min AS "Bench min",
    b_mean AS "Bench mean",
    b_norm AS "Bench l2norm",
    cell_digest(target_kind, target_type, target_name, coalesce(target_digest, if(target_shape = [], nullif(n_max, 'None'), NULL)), n_max) AS "NPU MD5",
    cell_digest(golden_kind, golden_type, golden_name, coalesce(golden_digest, if(golden_shape = [], nullif(b_max, 'None'), NULL)), b_max) AS "BENCH MD5",
    cell_flag(cell_flag(target_requires_grad) = cell_flag(golden_requires_grad)) AS "Requires_grad Consistent",
    verdict AS "Result",
    CASE
        WHEN len(messages) = 0 THEN '[]'
        ELSE '["' || array_to_string(messages, '", "') || '"]'
    END AS "Err_message",
    if(first_of_op, coalesce((SELECT texts FROM stack_texts)[stack + 1], 'N/A'), 'N/A') AS "NPU_Stack_Info",
    '[''' || CASE WHEN target_name IS NULL THEN 'N/A' ELSE coalesce(target_data_name, '-1') END || ''', '''
    || CASE WHEN golden_name IS NULL THEN 'N/A' ELSE coalesce(golden_data_name, '-1') END || ''']' AS "Data_name",
    part AS "Part"
FROM metric_cells
