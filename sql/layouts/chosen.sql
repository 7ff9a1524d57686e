-- chosen: the members that each leaf of the whole is made of; a partial sum that a collective adds up is its result.
-- grain: one leaf of one rank
-- parameters: after members, decided, picks, reductions; the variable backward_scale
-- factor: what its numbers are multiplied by
SELECT
    members.* REPLACE (
        coalesce(reductions.max, members.max) AS max,
        coalesce(reductions.min, members.min) AS min,
        coalesce(reductions.mean, members.mean) AS mean,
        coalesce(reductions.norm, members.norm) AS norm,
        coalesce(reductions.content, members.content) AS content
    ),
    coalesce(reductions.factor, 1)
    * if(
        cut_leaves.kind = 'tensor' AND regexp_matches(cut_leaves.whole_op, '\.(backward|parameters_grad)'),
        getvariable('backward_scale'),
        1
    ) AS factor
FROM picked_members AS members
JOIN decided
    USING (leaf)
JOIN cut_leaves
    USING (leaf)
LEFT JOIN reductions
    ON reductions.rank = members.rank AND reductions.sig = members.sig AND reductions.axes = decided.reduced
