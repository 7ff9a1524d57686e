-- ratio: how many times as large the norm of a leaf's shards together is as golden's.
-- grain: one row; NULL if either is not known or zero
-- parameters: $op, $slot, $repeat; after cut_members, golden_leaves
SELECT
    sqrt(sum(pow(norm, 2)) / max(copies)) / nullif(any_value(golden_norm), 0) AS ratio
FROM (
    SELECT
        members.norm,
        golden.norm AS golden_norm,
        count(*) OVER (PARTITION BY members.sig) AS copies
    FROM cut_members AS members
    JOIN golden_leaves AS golden
        USING (whole_op, slot, repeat)
    WHERE whole_op = $op AND slot = $slot AND repeat = $repeat AND members.norm > 0
)
