-- graph_merged: how each op of a run that was merged lay over the ranks of the cut run.
-- grain: one op with a leaf that was cut
-- parameters: $run, $step, $rank; the view layouts
-- texts: a text for each of these leaves, in the order of the op's rows
SELECT
    op,
    list(
        concat(slot, ': ', layout, ', merged from the ranks ', array_to_string(list_sort(list_distinct(shard_ranks)), ', '))
        ORDER BY row
    ) AS texts
FROM layouts
WHERE run = $run AND step = $step AND rank = $rank AND row IS NOT NULL AND layout <> '' AND len(shard_ranks) > 1
GROUP BY op
ORDER BY op
