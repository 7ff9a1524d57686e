-- makers: the op that made the value of an input: the rebuilt dataflow of one (step, rank).
-- grain: one input tensor whose value an earlier op recorded as an output
-- parameters: $target, $step, $rank; the views ops and tensors
-- A value is known by its contents, else by its digest, else by its statistics. Modules hand on what ops in them made,
--   so they count as makers only where the dump has no ops.
WITH
    seen AS (
        SELECT
            tensors.row,
            tensors.seq,
            tensors.role IN ('input', 'parameters') AS is_input,
            ops.kind = 'module' AS is_module,
            CASE
                WHEN content IS NOT NULL OR digest IS NOT NULL THEN hash(coalesce(content, digest))
                WHEN max <> min OR norm IS NOT NULL AND max IS NULL
                    THEN hash(max, min, norm, list_aggregate(shape, 'product'))
            END AS value
        FROM tensors
        JOIN ops USING (run, step, rank, seq)
        WHERE run = $target AND step = $step AND rank = $rank AND tensors.kind = 'tensor'
    ),
    made AS (
        SELECT DISTINCT value, seq
        FROM seen
        WHERE NOT is_input AND value IS NOT NULL AND (NOT is_module OR (SELECT bool_and(is_module) FROM seen))
    )
SELECT taken.row, made.seq AS maker
FROM (FROM seen WHERE is_input AND value IS NOT NULL) AS taken
ASOF JOIN made ON made.value = taken.value AND made.seq < taken.seq
ORDER BY taken.row
