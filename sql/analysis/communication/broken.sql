-- broken: the results that break a law, in the order in which the ops ran.
-- grain: one result by one law (see laws)
-- parameters: $step (NULL: all); after laws
SELECT
    step,
    meeting,
    law,
    rank,
    op,
    slot,
    seen_by,
    error,
    expected,
    found,
    reason
FROM laws
WHERE verdict = 'broken' AND ($step IS NULL OR step = $step)
ORDER BY
    step,
    min(seq) OVER (PARTITION BY step, meeting),
    meeting,
    law,
    rank,
    slot
