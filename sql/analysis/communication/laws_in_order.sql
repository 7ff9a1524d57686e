-- laws_in_order: the laws, those broken first, in the order in which the ops ran.
-- grain: one result by one law (see laws)
-- parameters: the table laws
SELECT
    *
FROM laws
ORDER BY
    verdict,
    step,
    min(seq) OVER (PARTITION BY step, meeting),
    meeting,
    law,
    rank,
    slot,
    seq,
    expected,
    found
