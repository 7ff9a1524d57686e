-- spread: how the difference reached the ranks: the first transfer that carried it to each.
-- grain: one rank that received something different
-- parameters: the tables transfers and blame_meetings
SELECT
    meetings.step,
    meetings.rank,
    from_rank,
    meetings.meeting,
    transfers.op,
    meetings.seq,
    brought_error
FROM blame_meetings AS meetings
JOIN transfers USING (step, rank, seq, meeting)
WHERE brought_error > 0
QUALIFY
    row_number() OVER (
        PARTITION BY meetings.step, meetings.rank
        ORDER BY meetings.seq, brought_error DESC, from_rank, meetings.meeting
    ) = 1
ORDER BY meetings.seq, meetings.rank
