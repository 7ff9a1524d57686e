-- laws_in_order: the laws, those broken first, in the order in which the ops ran.
-- grain: one result by one law (see laws)
-- parameters: $step (NULL: all); after laws
SELECT
    *
FROM laws
WHERE $step IS NULL OR step = $step
ORDER BY
    verdict,
    step,
    min(seq) OVER (PARTITION BY step, meeting),
    meeting,
    law,
    rank,
    slot
