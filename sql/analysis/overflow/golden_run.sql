-- golden_run: what a golden run has in place of a target's leaf with NaN or inf.
-- grain: one leaf of the target that golden has too
-- parameters: $run, $golden; the view tensors, the table overflow_leaves; the macro nonfinite_kinds
SELECT
    leaf.step,
    leaf.rank,
    leaf.row,
    nonfinite_kinds(
        coalesce(golden.max, try_cast(golden.value AS DOUBLE)),
        coalesce(golden.min, try_cast(golden.value AS DOUBLE)),
        coalesce(golden.mean, try_cast(golden.value AS DOUBLE))
    ) AS kinds
FROM overflow_leaves AS leaf
JOIN tensors AS target
    ON target.run = $run
    AND target.step = leaf.step
    AND target.rank = leaf.rank
    AND target.row = leaf.row
JOIN tensors AS golden
    ON golden.run = $golden
    AND golden.step = target.step
    AND golden.rank = target.rank
    AND golden.part = target.part
    AND golden.name = target.name
    AND golden.repeat = target.repeat
