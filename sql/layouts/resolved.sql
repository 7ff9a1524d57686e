-- resolved: the members with their leaf's placement; a partial sum that a collective adds up has the collective's result.
-- grain: one leaf of one rank
-- parameters: after cut_members, decided, reductions, golden_leaves; the variable backward_scale
-- factor: what its numbers are multiplied by; distance: how far it is from golden
SELECT
    members.* REPLACE (
        coalesce(reductions.max, members.max) AS max,
        coalesce(reductions.min, members.min) AS min,
        coalesce(reductions.mean, members.mean) AS mean,
        coalesce(reductions.norm, members.norm) AS norm,
        coalesce(reductions.content, members.content) AS content
    ),
    if(
        decided.reduced IS NULL,
        decided.ways,
        list_transform(decided.ways, lambda way: if(way IN ('sum', 'mean'), 'copy', way))
    ) AS ways,
    decided.dimensions,
    decided.layout,
    decided.source AS said_by,
    decided.certainty,
    decided.problem,
    decided.reason,
    decided.number,
    coalesce(reductions.factor, 1) * CASE
        WHEN members.kind <> 'tensor' THEN 1
        WHEN members.whole_op LIKE '%.backward%' OR members.whole_op LIKE '%.parameters_grad%' THEN getvariable('backward_scale')
        ELSE 1
    END AS factor,
    CASE
        WHEN list_contains(decided.ways, 'differ') THEN coalesce(
            abs(members.max - golden.max) + abs(members.min - golden.min) + abs(members.mean - golden.mean)
            + abs(members.norm - golden.norm),
            0
        )
        ELSE 0
    END AS distance
FROM cut_members AS members
JOIN decided
    USING (whole_op, slot, repeat)
LEFT JOIN golden_leaves AS golden
    USING (whole_op, slot, repeat)
LEFT JOIN reductions
    ON reductions.rank = members.rank AND reductions.sig = members.sig AND reductions.axes = decided.reduced
