-- broken: the results that break a law, in the order in which the ops ran.
-- grain: one result by one law (see laws)
-- parameters: the table laws
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
WHERE verdict = 'broken'
ORDER BY
    step,
    min(seq) OVER (PARTITION BY step, meeting),
    meeting,
    law,
    rank,
    slot,
    seq,
    expected,
    found
