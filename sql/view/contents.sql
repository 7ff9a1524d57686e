-- contents: the leaves of one (step, rank) that differ and whose contents both sides have, the largest error first.
-- grain: one pair of leaves
-- parameters: $comparison, $target, $golden, $step, $rank, $golden_step, $golden_rank, $most; the views results, tensors
--   and tensor_references, the table view_levels
SELECT
    results.target_row,
    ours.reference AS target,
    theirs.reference AS golden
FROM results
JOIN view_levels AS levels
    ON levels.step = results.step
    AND levels.rank = results.rank
    AND levels.row = results.row
JOIN tensors AS t
    ON t.run = $target
    AND t.step = $step
    AND t.rank = $rank
    AND t.row = results.target_row
JOIN tensors AS g
    ON g.run = $golden
    AND g.step = $golden_step
    AND g.rank = $golden_rank
    AND g.row = results.golden_row
JOIN tensor_references AS ours
    ON ours.run = $target
    AND ours.step = $step
    AND ours.rank = $rank
    AND ours.content = t.content
JOIN tensor_references AS theirs
    ON theirs.run = $golden
    AND theirs.step = $golden_step
    AND theirs.rank = $golden_rank
    AND theirs.content = g.content
WHERE
    results.comparison = $comparison
    AND results.step = $step
    AND results.rank = $rank
    AND difference <> 'equal'
    AND t.content <> g.content
    AND target_shape = golden_shape
ORDER BY levels.error DESC NULLS LAST, results.row
LIMIT $most
