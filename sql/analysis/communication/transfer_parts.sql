-- transfer_parts: the leaves of the sampled calls, by the argument or output that they belong to.
-- grain: one leaf of one call
-- key: position or keyword of the argument (or position of the output) of the leaf; rest: its path inside
-- parameters: $run; the view tensors, the table transfer_samples
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
FROM tensors AS recorded
JOIN transfer_samples AS samples USING (step, rank, seq)
WHERE recorded.run = $run AND recorded.role IN ('input', 'output')
