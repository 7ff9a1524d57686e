-- spread: how the difference reached the ranks: the first transfer that carried it to each.
-- grain: one rank that received something different
-- parameters: the tables transfers and blame_meetings
SELECT
    meetings.step,
    meetings.rank,
    arg_min(from_rank, meetings.seq) AS from_rank,
    arg_min(meetings.meeting, meetings.seq) AS meeting,
    arg_min(transfers.op, meetings.seq) AS op,
    min(meetings.seq) AS seq,
    arg_min(brought_error, meetings.seq) AS brought_error
FROM blame_meetings AS meetings
JOIN transfers USING (step, rank, seq, meeting)
WHERE brought_error > 0
GROUP BY ALL
ORDER BY seq, meetings.rank
