-- readings: what to read if the contents were dumped: a result, and the pieces that it should consist of.
-- grain: one result
-- parameters: after places, parts and expected
-- results: places of its tensors; pieces: place, layer, and range (NULL: all), in order; epsilon: spacing at 1 of
-- the coarsest dtype as recorded, which may not be the file's: MindSpore saves bfloat16 as float32
WITH
    located AS (
        SELECT
            step,
            rank,
            row,
            epsilon,
            number
        FROM tensors_moved
        JOIN places USING (content)
    ),
    judged AS (
        FROM parts
        WHERE by_contents AND problem IS NULL AND same_content IS DISTINCT FROM true
    ),
    pieces AS (
        SELECT
            step,
            meeting,
            law,
            part,
            any_value(reduction) AS reduction,
            max(epsilon) AS input_epsilon,
            list({'layer': layer, 'place': number, 'first': first, 'elements': elements} ORDER BY layer, place)
                AS pieces
        FROM expected
        JOIN located USING (step, rank, row)
        SEMI JOIN judged USING (step, meeting, law, part)
        GROUP BY ALL
    ),
    rows AS (
        SELECT
            step,
            meeting,
            law,
            part,
            rank,
            seq,
            slot,
            unnest(rows) AS row,
            generate_subscripts(rows, 1) AS place
        FROM judged
    ),
    results AS (
        SELECT
            rows.step,
            meeting,
            law,
            part,
            rows.rank,
            seq,
            slot,
            max(epsilon) AS epsilon,
            list(number ORDER BY place) AS results
        FROM rows
        JOIN located ON located.step = rows.step AND located.rank = rows.rank AND located.row = rows.row
        GROUP BY ALL
    )
SELECT
    * EXCLUDE (input_epsilon) REPLACE (greatest(epsilon, input_epsilon) AS epsilon)
FROM results
JOIN pieces USING (step, meeting, law, part)
