-- missing_content: the unit of a tensor row has the content that the row names.
-- grain: one violation
SELECT
    tensors.run,
    tensors.step,
    tensors.rank,
    tensors.name,
    tensors.content
FROM tensors
ANTI JOIN contents USING (run, step, rank, content)
WHERE tensors.content IS NOT NULL
LIMIT 100
