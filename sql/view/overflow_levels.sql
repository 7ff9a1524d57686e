-- overflow_levels: the ops of a run that have a level of NaN and inf.
-- grain: one op
-- parameters: none; the table overflow_levels
SELECT
    step,
    rank,
    seq,
    level
FROM overflow_levels
WHERE level IS NOT NULL
