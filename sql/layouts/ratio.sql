-- ratio: how many times as large the norm of a leaf's shards together is as golden's.
-- grain: one row; NULL if either is not known, zero or not finite
-- parameters: $leaf, $copies (how many ranks have the same shard); after members, golden_leaves
SELECT
    if(
        bool_and(members.norm IS NOT NULL),
        nullif(finite_part(sqrt(ordered_sum(pow(members.norm, 2)) / $copies)), 0) / nullif(finite_part(max(golden.norm)), 0),
        NULL
    ) AS ratio
FROM cut_members AS members
JOIN golden_leaves AS golden
    USING (leaf)
WHERE leaf = $leaf
