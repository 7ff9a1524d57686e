-- op_heads: the ops that a pattern finds, in the order of the program, each with its module and call stack.
-- grain: one op of one (run, step, rank)
-- A pattern is a name, the beginning of one, a glob over names or modules, or a part of a name or module. The first of
-- these that finds an op counts.
-- frames: the call stack; own_frames: its frames outside the framework's code
-- parameters: $pattern, $runs, $steps, $ranks (empty: all); the views ops and stacks
WITH
    found AS (
        SELECT
            ops.*,
            CASE
                WHEN ops.op = $pattern THEN 1
                WHEN starts_with(ops.op, $pattern || '.') THEN 2
                WHEN ops.op GLOB $pattern OR ops.parent GLOB $pattern THEN 3
                WHEN contains(lower(ops.op), lower($pattern)) THEN 4
                WHEN contains(lower(ops.parent), lower($pattern)) THEN 5
            END AS way
        FROM ops
        WHERE
            way IS NOT NULL
            AND (len($runs::VARCHAR[]) = 0 OR list_contains($runs::VARCHAR[], ops.run))
            AND (len($steps::INTEGER[]) = 0 OR list_contains($steps::INTEGER[], ops.step))
            AND (len($ranks::INTEGER[]) = 0 OR list_contains($ranks::INTEGER[], ops.rank))
    )
SELECT
    found.run,
    found.step,
    found.rank,
    found.seq,
    found.op,
    found.parent,
    coalesce(stacks.frames, []) AS frames,
    user_frames(stacks.frames) AS own_frames
FROM found
LEFT JOIN stacks USING (run, step, rank, stack)
QUALIFY found.way = min(found.way) OVER ()
ORDER BY found.step, found.rank, found.seq, found.run
