-- chosen: the members that each leaf of the whole is made of; a partial sum that a collective adds up is its result.
-- grain: one leaf of one rank
-- parameters: after members, decided, picks, reductions; the variable backward_scale
-- factor: what its numbers are multiplied by
SELECT
    members.* REPLACE (
        if(reductions.sig IS NULL, members.max, reductions.max) AS max,
        if(reductions.sig IS NULL, members.min, reductions.min) AS min,
        if(reductions.sig IS NULL, members.mean, reductions.mean) AS mean,
        if(reductions.sig IS NULL, members.norm, reductions.norm) AS norm,
        if(reductions.sig IS NULL, members.content, reductions.content) AS content
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
