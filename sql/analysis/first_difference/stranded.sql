-- stranded: ranks whose differences explain each other, and which nothing else explains.
-- grain: one (step, rank)
-- parameters: the tables affected, firsts and origins
-- This happens if an asynchronous receive is recorded before its data arrived.
SELECT step, rank
FROM affected
SEMI JOIN firsts USING (step, rank)
ANTI JOIN origins USING (step, rank)
