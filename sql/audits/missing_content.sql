-- missing_content: a tensor row that names a content finds it in its unit.
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
