-- first_tensors: the rows of the first shards of the whole's leaves, as the ranks have them.
-- grain: one leaf that is not left out
-- parameters: $run, $step, $ranks (those that have a first shard); after whole_rows
SELECT kept.leaf, tensors.* EXCLUDE (run, step)
FROM whole_rows AS kept
JOIN tensors
    ON tensors.rank = kept.first_rank AND tensors.row = kept.first_row
WHERE kept.reason IS NULL AND tensors.run = $run AND tensors.step = $step AND list_contains($ranks, tensors.rank)
