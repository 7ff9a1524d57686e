-- statistics: differences of the recorded max, min, mean and norm, and of scalar values.
-- grain: one pair of the same kind
-- A scalar counts as max, min, mean and norm, as in msprobe's table; a bool tensor counts as 1 or 0. *_diff is target -
-- golden, exact for integers; *_relative is |diff / golden|, infinite if only golden is 0. Equal values (NaN and NaN,
-- inf and inf, 0 and -0) have the difference 0. NULL if a side has no number. Source: msprobe 26.2
-- (core/compare/acc_compare.py).
WITH
    numbers AS (
        SELECT
            row,
            coalesce(target_max, target_number) AS target_max,
            coalesce(target_min, target_number) AS target_min,
            coalesce(target_mean, target_number) AS target_mean,
            coalesce(target_norm, target_number) AS target_norm,
            coalesce(golden_max, golden_number) AS golden_max,
            coalesce(golden_min, golden_number) AS golden_min,
            coalesce(golden_mean, golden_number) AS golden_mean,
            coalesce(golden_norm, golden_number) AS golden_norm,
            coalesce(target_max_int, try_cast(target_value AS HUGEINT)) AS target_max_int,
            coalesce(target_min_int, try_cast(target_value AS HUGEINT)) AS target_min_int,
            coalesce(golden_max_int, try_cast(golden_value AS HUGEINT)) AS golden_max_int,
            coalesce(golden_min_int, try_cast(golden_value AS HUGEINT)) AS golden_min_int
        FROM paired
        WHERE target_kind = golden_kind
    ),
    differences AS (
        SELECT
            row,
            golden_max,
            golden_min,
            golden_mean,
            golden_norm,
            exact_difference_of(target_max, golden_max, target_max_int, golden_max_int) AS max_diff,
            exact_difference_of(target_min, golden_min, target_min_int, golden_min_int) AS min_diff,
            difference_of(target_mean, golden_mean) AS mean_diff,
            difference_of(target_norm, golden_norm) AS norm_diff
        FROM numbers
    )
SELECT
    row,
    max_diff,
    min_diff,
    mean_diff,
    norm_diff,
    relative_of(max_diff, golden_max) AS max_relative,
    relative_of(min_diff, golden_min) AS min_relative,
    relative_of(mean_diff, golden_mean) AS mean_relative,
    relative_of(norm_diff, golden_norm) AS norm_relative
FROM differences
