-- spread: how NaN or inf first reached each rank.
-- grain: one rank in one step, in the order in which it reached them
-- parameters: $run; the view ops, the table overflow_origins
-- received_from, through: the ranks that sent it, and the op of this rank that received it
SELECT
    first.step,
    first.rank,
    first.seq,
    ops.op,
    first.level,
    first.origin,
    first.sources AS received_from,
    through.op AS through
FROM overflow_origins AS first
JOIN ops ON ops.run = $run AND ops.step = first.step AND ops.rank = first.rank AND ops.seq = first.seq
LEFT JOIN ops AS through
    ON first.origin = 'received'
    AND through.run = $run
    AND through.step = first.step
    AND through.rank = first.rank
    AND through.seq = first.source_seq
WHERE first.is_first
ORDER BY first.step, first.origin = 'received', coalesce(first.source_seq, first.seq), first.rank
