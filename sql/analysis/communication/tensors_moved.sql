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
    ),
    found AS (
        SELECT
            tensors.step,
            tensors.rank,
            tensors.row,
            tensors.dtype,
            tensors.shape,
            coalesce(tensors.max_int, tensors.max) AS high,
            coalesce(tensors.min_int, tensors.min) AS low,
            tensors.mean,
            tensors.norm,
            tensors.digest,
            tensors.content
        FROM tensors
        JOIN moved ON moved.step = tensors.step AND moved.rank = tensors.rank AND moved.row = tensors.row
        WHERE tensors.run = $run
    ),
    counted AS (
        SELECT
            *,
            coalesce(list_product(shape), 1) AS whole,
            coalesce(list_product(shape[2:]), 1) AS a_row
        FROM found
    )
SELECT
    * EXCLUDE (shape, whole, a_row),
    -- no tensor has more elements than this, though a damaged shape may say so; sums over a run have to fit 64 bits
    if(abs(whole) <= 1e15, TRY_CAST(whole AS BIGINT), NULL) AS elements,
    if(abs(a_row) <= 1e15, TRY_CAST(a_row AS BIGINT), NULL) AS row_elements,
    epsilon_of(dtype) AS epsilon
FROM counted
