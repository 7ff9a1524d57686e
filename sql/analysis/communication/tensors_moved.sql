-- tensors_moved: the tensors that a run's transfers give and receive, with what is known without reading them.
-- grain: one tensor
-- parameters: $run; after transfers
WITH
    moved AS (
        SELECT DISTINCT
            step,
            rank,
            unnest(list_concat(coalesce(given, []), coalesce(taken, []))) AS row
        FROM transfers
    )
SELECT
    tensors.step,
    tensors.rank,
    tensors.row,
    tensors.dtype,
    CAST(coalesce(list_product(tensors.shape), 1) AS BIGINT) AS elements,
    CAST(coalesce(list_product(tensors.shape[2:]), 1) AS BIGINT) AS row_elements,
    epsilon_of(tensors.dtype) AS epsilon,
    coalesce(tensors.max_int, tensors.max) AS high,
    coalesce(tensors.min_int, tensors.min) AS low,
    tensors.mean,
    tensors.norm,
    tensors.digest,
    tensors.content
FROM tensors
JOIN moved ON moved.step = tensors.step AND moved.rank = tensors.rank AND moved.row = tensors.row
WHERE tensors.run = $run
