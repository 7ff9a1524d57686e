-- gifts: what a rank gives to others, and when.
-- grain: one transfer by which a rank gives
-- parameters: the tables transfers and firsts
-- meeting: a number in place of the text
SELECT
    step,
    rank,
    hash(step, meeting) AS meeting,
    seq AS moment
FROM transfers
-- a step without differences needs no explanation
SEMI JOIN firsts USING (step)
WHERE partners > 0 AND gives_in(kind, rank, peer)
