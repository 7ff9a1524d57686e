-- golden_comparison: the golden side of a target's leaf with NaN or inf, in a comparison.
-- grain: one leaf of the target that has a counterpart
-- parameters: $comparison; the view results, the table overflow_leaves; the macro nonfinite_kinds
SELECT
    leaf.step,
    leaf.rank,
    leaf.row,
    nonfinite_kinds(
        coalesce(golden_max, try_cast(golden_value AS DOUBLE)),
        coalesce(golden_min, try_cast(golden_value AS DOUBLE)),
        coalesce(golden_mean, try_cast(golden_value AS DOUBLE))
    ) AS kinds
FROM overflow_leaves AS leaf
JOIN results
    ON comparison = $comparison
    AND results.step = leaf.step
    AND results.rank = leaf.rank
    AND target_row = leaf.row
    AND golden_row IS NOT NULL
