-- contradictions: the ops of a merged run with copies that differ although no input of theirs does, or with weights
-- whose shards are interleaved differently from what uses them, in their order.
-- grain: one op
-- parameters: $target, $step, $suspect, $most; the views of the lake
-- suspect: an op that stands out of rounding noise; then only the ops before it whose inputs are equal on all ranks
WITH
    contradicted AS (
        SELECT
            layouts.row,
            layouts.op,
            layouts.slot,
            layouts.problem,
            layouts.shard_ranks,
            layouts.slot LIKE 'input%' AS is_input
        FROM memory.main.layouts AS layouts
        WHERE run = $target AND step = $step AND row IS NOT NULL AND (problem LIKE '%copies along % differ%' OR (slot LIKE 'parameters%' AND problem LIKE '%interleaved differently%'))
    ),
    first_row AS (
        SELECT
            op,
            min(row) AS row,
            arg_min(problem, row) AS problem,
            arg_min(slot, row) AS slot,
            arg_min(shard_ranks, row) AS ranks,
            bool_or(is_input) AS has_input
        FROM contradicted
        GROUP BY op
    )
SELECT
    CAST(row_number() OVER (ORDER BY first_row.has_input, first_row.row) AS BIGINT) AS nth,
    CAST(first_row.ranks AS INTEGER[]) AS ranks,
    first_row.op,
    ops.parent AS module,
    'suspect' AS grade,
    CASE
        WHEN first_row.problem LIKE '%interleaved differently%' THEN 'the ' || first_row.problem
        ELSE 'the ' || first_row.problem || ' in its ' || first_row.slot
            || if(first_row.has_input, '', ', and not in its inputs')
    END AS why
FROM first_row
JOIN memory.main.ops AS ops
    ON ops.run = $target AND ops.step = $step AND ops.op = first_row.op
WHERE
    $suspect IS NULL
    OR (
        NOT first_row.has_input
        AND ops.seq < (SELECT min(seq) FROM memory.main.ops WHERE run = $target AND step = $step AND op = $suspect)
    )
ORDER BY nth
LIMIT $most
