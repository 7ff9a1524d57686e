-- judged: the leaves with NaN or inf, with the reason if that is expected, else NULL.
-- grain: one leaf
-- parameters: none; the tables overflow_settled, overflow_deliberate
SELECT
    leaf.*,
    CASE
        WHEN leaf.excuse IS NOT NULL THEN leaf.excuse
        WHEN leaf.side = 'out' AND own.seq IS NOT NULL THEN 'what the call asks for'
        WHEN leaf.side = 'in' AND source.seq IS NOT NULL THEN 'what an earlier call asked for'
    END AS expected
FROM overflow_settled AS leaf
LEFT JOIN overflow_deliberate AS own USING (step, rank, seq)
LEFT JOIN overflow_deliberate AS source
    ON source.step = leaf.step
    AND source.rank = leaf.rank
    AND source.seq = leaf.producer
