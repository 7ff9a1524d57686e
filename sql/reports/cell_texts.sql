-- cell_texts: the rows of a comparison with the first cells of msprobe's table ("shown HEADER"), and the texts of both
--   sides' statistics, which cells of metrics may use.
-- grain: one row of the comparison of one (step, rank)
-- n_… is the target's, b_… golden's; a scalar or object counts as all four statistics
-- parameters: the view results
SELECT
    *,
    coalesce(target_name, 'N/A') AS "shown NPU Name",
    coalesce(golden_name, 'N/A') AS "shown Bench Name",
    cell_dtype(target_kind, target_type, target_dtype, target_name) AS "shown NPU Dtype",
    cell_dtype(golden_kind, golden_type, golden_dtype, golden_name) AS "shown Bench Dtype",
    cell_shape(target_kind, target_type, target_shape, target_value) AS "shown NPU Tensor Shape",
    cell_shape(golden_kind, golden_type, golden_shape, golden_value) AS "shown Bench Tensor Shape",
    cell_flag(target_requires_grad) AS "shown NPU Requires_grad",
    cell_flag(golden_requires_grad) AS "shown Bench Requires_grad",
    cell_statistic(target_kind, target_type, target_stat_types[1], target_max, target_max_int, target_value, target_extra) AS n_max,
    cell_statistic(target_kind, target_type, target_stat_types[2], target_min, target_min_int, target_value, target_extra) AS n_min,
    cell_statistic(target_kind, target_type, target_stat_types[3], target_mean, NULL, target_value, target_extra) AS n_mean,
    cell_statistic(target_kind, target_type, target_stat_types[4], target_norm, NULL, target_value, target_extra) AS n_norm,
    cell_statistic(golden_kind, golden_type, golden_stat_types[1], golden_max, golden_max_int, golden_value, golden_extra) AS b_max,
    cell_statistic(golden_kind, golden_type, golden_stat_types[2], golden_min, golden_min_int, golden_value, golden_extra) AS b_min,
    cell_statistic(golden_kind, golden_type, golden_stat_types[3], golden_mean, NULL, golden_value, golden_extra) AS b_mean,
    cell_statistic(golden_kind, golden_type, golden_stat_types[4], golden_norm, NULL, golden_value, golden_extra) AS b_norm
FROM results
