-- places: the places of the contents of a run's transfers; ranks with the same content share one place.
-- grain: one distinct content
-- parameters: $run; after tensors_moved; the view tensor_references
SELECT
    CAST(row_number() OVER (ORDER BY content) AS INTEGER) AS number,
    content,
    arg_min(reference, (step, rank)) AS reference
FROM tensor_references
SEMI JOIN tensors_moved USING (content)
WHERE run = $run
GROUP BY content
