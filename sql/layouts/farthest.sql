-- farthest: of each leaf whose copies differ, the member that is farthest from golden.
-- grain: one leaf
-- parameters: after members, decided, golden_leaves
SELECT DISTINCT ON (leaf) members.*
FROM cut_members AS members
JOIN decided
    USING (leaf)
LEFT JOIN golden_leaves AS golden
    USING (leaf)
WHERE list_contains(decided.ways, 'differ')
ORDER BY
    leaf,
    coalesce(
        abs(members.max - golden.max) + abs(members.min - golden.min) + abs(members.mean - golden.mean)
        + abs(members.norm - golden.norm),
        0
    ) DESC,
    members.rank,
    members.micro
