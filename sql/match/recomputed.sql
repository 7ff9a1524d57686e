-- recomputed: the ops of a run, each with the number that pairs its calls, where recomputed calls have numbers of their own.
-- grain: one op, in the order of the dump
-- parameters: the tables ops and stacks of the run
-- Activation checkpointing calls ops again in the backward pass, and all later calls of the API have other numbers then. So the
--   other calls are numbered as if nothing had been recomputed, and recomputed ones from -1 on downwards. Either a mark of the
--   dump tells which they are, or the call stack.
WITH
    again AS (
        SELECT stack FROM stacks WHERE is_recomputation(frames)
    ),
    marked AS (
        SELECT * REPLACE (coalesce(is_recompute, stack IN (FROM again), false) AS is_recompute) FROM ops
    )
SELECT
    * REPLACE (
        CASE
            WHEN direction = 'forward' AND is_recompute
                THEN -row_number() OVER (PARTITION BY part, stem, is_recompute ORDER BY seq)
            WHEN direction = 'forward'
                THEN call_number - count(*) FILTER (WHERE is_recompute) OVER (PARTITION BY part, stem ORDER BY seq)
            ELSE call_number
        END AS call_number
    )
FROM marked
ORDER BY seq
