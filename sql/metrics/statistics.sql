-- statistics: differences of the recorded max, min, mean and norm, and of scalar values.
-- grain: one pair of the same kind
-- A scalar stands in all four columns, as in msprobe's table; a bool counts as 1 or 0. *_diff is target - golden, exact
-- for integers; *_relative is |diff / golden|, infinite where only golden is 0. Equal values (NaN and NaN, inf and inf,
-- 0 and -0) have the difference 0. NULL where a side has no number. Source: msprobe 26.2 (facts 4.4).
WITH
    numbers AS (
        SELECT
            pairing.row,
            coalesce(t.max, t.number) AS target_max,
            coalesce(t.min, t.number) AS target_min,
            coalesce(t.mean, t.number) AS target_mean,
            coalesce(t.norm, t.number) AS target_norm,
            coalesce(g.max, g.number) AS golden_max,
            coalesce(g.min, g.number) AS golden_min,
            coalesce(g.mean, g.number) AS golden_mean,
            coalesce(g.norm, g.number) AS golden_norm,
            t.max_int AS target_max_int,
            t.min_int AS target_min_int,
            g.max_int AS golden_max_int,
            g.min_int AS golden_min_int
        FROM pairing
        JOIN target AS t ON t.row = pairing.target_row
        JOIN golden AS g ON g.row = pairing.golden_row
        WHERE t.kind = g.kind
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
