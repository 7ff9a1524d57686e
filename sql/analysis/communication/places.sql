-- places: where the contents of a run's transfers lie; ranks that have the same content share one place.
-- grain: one distinct content
-- parameters: $run; after tensors_moved
WITH
    lies AS (
        SELECT
            content,
            {
                'file': if(
                    file LIKE '/%', file,
                    getvariable('lake') || '/run=' || run || '/step=' || step || '/rank=' || rank || '/' || file
                ),
                'offset': "offset",
                'length': length,
                'dtype': dtype,
                'shape': shape,
                'strides': strides
            } AS reference,
            step,
            rank
        FROM contents
        WHERE run = $run
    )
SELECT
    CAST(row_number() OVER () AS INTEGER) AS number,
    content,
    arg_min(reference, (step, rank)) AS reference
FROM lies
SEMI JOIN tensors_moved USING (content)
GROUP BY content
