-- first_tensors: the rows of the first shards of the whole's leaves, as the ranks have them.
-- grain: one leaf that is not left out
-- parameters: $run, $step, $ranks (those that have a first shard), $golden, $golden_step, $golden_rank; after whole_rows
-- Of an op that golden alone has, they are golden's.
SELECT kept.leaf, tensors.* EXCLUDE (run, step)
FROM whole_rows AS kept
JOIN tensors
    ON tensors.rank = kept.first_rank AND tensors.row = kept.first_row
WHERE
    kept.reason IS NULL
    AND tensors.run = $run
    AND tensors.step = $step
    AND list_contains($ranks, tensors.rank)
    AND kept.leaf NOT IN (SELECT leaf FROM alone_leaves)
UNION ALL BY NAME
SELECT alone_leaves.leaf, tensors.* EXCLUDE (run, step)
FROM alone_leaves
JOIN tensors
    USING (op, slot, repeat)
WHERE tensors.run = $golden AND tensors.step = $golden_step AND tensors.rank = $golden_rank
