-- graph_meetings: the partners of each op that connects ranks.
-- grain: one op, and one op of another rank that it meets
-- parameters: the tables transfers and view_ops
-- way: what the op does: send, receive or send_receive
SELECT DISTINCT
    one.step,
    one.rank,
    one.seq,
    CASE one.kind WHEN 'send' THEN 'send' WHEN 'recv' THEN 'receive' ELSE 'send_receive' END AS way,
    other.rank AS other_rank,
    other.op AS other_op,
    coalesce(judged.level, 0) AS other_level
FROM transfers AS one
JOIN transfers AS other ON other.step = one.step AND other.meeting = one.meeting AND other.rank <> one.rank
LEFT JOIN view_ops AS judged
    ON judged.step = other.step
    AND judged.rank = other.rank
    AND judged.target_seq = other.seq
ORDER BY one.step, one.rank, one.seq, other.rank, other.op
