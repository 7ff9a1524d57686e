-- cells: a comparison's rows as texts, under the headers of msprobe 26.2's result tables.
-- grain: one row of the comparison of one (step, rank)
-- order: that of results, which its file keeps; so nothing here joins or sorts
-- parameters: the views results and stacks
WITH
    texts AS (
        SELECT
            *,
            cell_statistic(target_kind, target_type, target_stat_types[1], target_max, target_max_int, target_value, target_extra) AS n_max,
            cell_statistic(target_kind, target_type, target_stat_types[2], target_min, target_min_int, target_value, target_extra) AS n_min,
            cell_statistic(target_kind, target_type, target_stat_types[3], target_mean, NULL, target_value, target_extra) AS n_mean,
            cell_statistic(target_kind, target_type, target_stat_types[4], target_norm, NULL, target_value, target_extra) AS n_norm,
            cell_statistic(golden_kind, golden_type, golden_stat_types[1], golden_max, golden_max_int, golden_value, golden_extra) AS b_max,
            cell_statistic(golden_kind, golden_type, golden_stat_types[2], golden_min, golden_min_int, golden_value, golden_extra) AS b_min,
            cell_statistic(golden_kind, golden_type, golden_stat_types[3], golden_mean, NULL, golden_value, golden_extra) AS b_mean,
            cell_statistic(golden_kind, golden_type, golden_stat_types[4], golden_norm, NULL, golden_value, golden_extra) AS b_norm
        FROM results
    ),
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
    coalesce(target_name, 'N/A') AS "NPU Name",
    coalesce(golden_name, 'N/A') AS "Bench Name",
    cell_dtype(target_kind, target_type, target_dtype, target_name) AS "NPU Dtype",
    cell_dtype(golden_kind, golden_type, golden_dtype, golden_name) AS "Bench Dtype",
    cell_shape(target_kind, target_type, target_shape, target_value) AS "NPU Tensor Shape",
    cell_shape(golden_kind, golden_type, golden_shape, golden_value) AS "Bench Tensor Shape",
    cell_flag(target_requires_grad) AS "NPU Requires_grad",
    cell_flag(golden_requires_grad) AS "Bench Requires_grad",
    cell_difference(n_max, b_max, max_diff, max_diff::VARCHAR) AS "Max diff",
    cell_difference(n_min, b_min, min_diff, min_diff::VARCHAR) AS "Min diff",
    cell_difference(n_mean, b_mean, mean_diff, mean_diff::VARCHAR) AS "Mean diff",
    cell_difference(n_norm, b_norm, norm_diff, norm_diff::VARCHAR) AS "L2norm diff",
    cell_difference(n_max, b_max, max_diff, cell_percent(max_relative)) AS max_relative_cell,
    cell_difference(n_min, b_min, min_diff, cell_percent(min_relative)) AS "MinRelativeErr",
    cell_difference(n_mean, b_mean, mean_diff, cell_percent(mean_relative)) AS "MeanRelativeErr",
    cell_difference(n_norm, b_norm, norm_diff, cell_percent(norm_relative)) AS "NormRelativeErr",
    cell_metric(measurement, cosine) AS "Cosine",
    cell_metric(if(measurement = 'measured', NULL, measurement), euclidean_distance) AS "EucDist",
    cell_metric(measurement, max_abs_error) AS "MaxAbsErr",
    cell_metric(measurement, max_relative_error) AS max_relative_error_cell,
    cell_metric(measurement, one_thousandth_ratio) AS "One Thousandth Err Ratio",
    cell_metric(measurement, five_thousandths_ratio) AS "Five Thousandths Err Ratio",
    n_max AS "NPU max",
    n_min AS "NPU min",
    n_mean AS "NPU mean",
    n_norm AS "NPU l2norm",
    b_max AS "Bench max",
    b_min AS "Bench min",
    b_mean AS "Bench mean",
    b_norm AS "Bench l2norm",
    cell_digest(target_kind, target_type, target_name, target_digest, n_max) AS "NPU MD5",
    cell_digest(golden_kind, golden_type, golden_name, golden_digest, b_max) AS "BENCH MD5",
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
FROM texts
