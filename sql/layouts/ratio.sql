-- ratio: how many times as large the norm of a leaf's shards together is as golden's.
-- grain: one row; NULL if either is not known or zero
-- parameters: $leaf, $copies (how many ranks have the same shard); after members, golden_leaves
SELECT sqrt(ordered_sum(pow(members.norm, 2)) / $copies) / nullif(any_value(golden.norm), 0) AS ratio
FROM cut_members AS members
JOIN golden_leaves AS golden
    USING (leaf)
WHERE leaf = $leaf
