-- transfer_parts: the leaves of the calls that are read, by the argument or output that they belong to.
-- grain: one leaf of one call
-- key: place or keyword of the argument (or place of the output) that the leaf belongs to; rest: its path in there
-- parameters: the tables transfer_leaves and transfer_samples
SELECT
    recorded.step,
    recorded.rank,
    recorded.seq,
    recorded.row,
    recorded.role,
    recorded.section,
    if(samples.kind = 'batch', recorded.slot, NULL) AS slot,
    recorded.kind,
    recorded.value,
    recorded.extra,
    strpos(recorded.path, ',') > 0 AS in_list,
    trim(split_part(recorded.path, ',', 1), '["]') AS key,
    if(samples.kind = 'batch', recorded.path[strpos(recorded.path, ',') + 1:-2], NULL) AS rest
FROM transfer_leaves AS recorded
JOIN transfer_samples AS samples USING (step, rank, seq)
