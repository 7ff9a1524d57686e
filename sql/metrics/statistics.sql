-- statistics: differences of the recorded max, min, mean and norm, and of scalar values.
-- grain: one pair with both sides
-- A scalar stands in all four columns, as in msprobe's table. *_diff is target - golden, exact for integers;
-- *_relative is |diff / golden|, infinite where only golden is 0. Equal values (NaN and NaN, inf and inf, 0 and -0)
-- have the difference 0. NULL where a side has no number, or a tensor meets a scalar. Source: msprobe 26.2 (facts 4.4).
WITH
    numbers AS (
        SELECT
            pairing.row,
            integer_of(t.kind, t.max_int, t.value) - integer_of(g.kind, g.max_int, g.value) AS max_exact,
            integer_of(t.kind, t.min_int, t.value) - integer_of(g.kind, g.min_int, g.value) AS min_exact,
            number_of(t.kind, t.stat_types[1], t.max, t.value) AS target_max,
            number_of(t.kind, t.stat_types[2], t.min, t.value) AS target_min,
            number_of(t.kind, t.stat_types[3], t.mean, t.value) AS target_mean,
            number_of(t.kind, t.stat_types[4], t.norm, t.value) AS target_norm,
            number_of(g.kind, g.stat_types[1], g.max, g.value) AS golden_max,
            number_of(g.kind, g.stat_types[2], g.min, g.value) AS golden_min,
            number_of(g.kind, g.stat_types[3], g.mean, g.value) AS golden_mean,
            number_of(g.kind, g.stat_types[4], g.norm, g.value) AS golden_norm
        FROM pairing
        JOIN target AS t ON t.row = pairing.target_row
        JOIN golden AS g ON g.row = pairing.golden_row
        WHERE t.kind = g.kind
    ),
    differences AS (
        SELECT
            *,
            coalesce(max_exact::DOUBLE, difference_of(target_max, golden_max)) AS max_diff,
            coalesce(min_exact::DOUBLE, difference_of(target_min, golden_min)) AS min_diff,
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
