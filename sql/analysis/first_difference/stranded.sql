-- stranded: ranks whose differences explain each other and nothing else explains them.
-- grain: one (step, rank)
-- parameters: the tables affected, firsts and origins
-- It comes about where a receive that does not wait is recorded before its data came.
SELECT step, rank
FROM affected
SEMI JOIN firsts USING (step, rank)
ANTI JOIN origins USING (step, rank)
