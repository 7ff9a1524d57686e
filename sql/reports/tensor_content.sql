-- tensor_content: the leaves of one op in one slot, with the places of their contents.
-- grain: one leaf
-- parameters: $run, $step, $rank, $op, $slot; the views tensors and tensor_references
SELECT
    content_problem,
    reference
FROM tensors
LEFT JOIN tensor_references USING (run, step, rank, content)
WHERE run = $run AND step = $step AND rank = $rank AND op = $op AND slot = $slot
ORDER BY row
