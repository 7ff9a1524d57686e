-- arrivals: what a rank receives from others before it differs itself, and when.
-- grain: one transfer by which a rank receives
-- parameters: the tables transfers and firsts
-- moment: a quarter after the op's place
-- late_moment: for an asynchronous call, after the transfers that follow it, in case the wait precedes the next op
WITH
    places AS (
        SELECT DISTINCT step, rank, seq FROM transfers
    ),
    rows AS (
        SELECT *, seq - row_number() OVER (PARTITION BY step, rank ORDER BY seq) AS run_of_transfers FROM places
    ),
    ends AS (
        SELECT
            step,
            rank,
            seq,
            max(seq) OVER (PARTITION BY step, rank, run_of_transfers) AS last_seq
        FROM rows
    )
SELECT
    transfers.step,
    transfers.rank,
    hash(transfers.step, meeting) AS meeting,
    transfers.seq,
    transfers.slot,
    transfers.seq + 0.25 AS moment,
    if(asynchronous OR is_waited_for, last_seq + 0.5, transfers.seq + 0.25) AS late_moment
FROM transfers
JOIN ends USING (step, rank, seq)
LEFT JOIN firsts ON firsts.step = transfers.step AND firsts.rank = transfers.rank
WHERE
    partners > 0
    AND takes_in(kind, transfers.rank, peer)
    AND (kind NOT IN ('broadcast', 'scatter') OR transfers.rank <> peer)
    AND (firsts.moment IS NULL OR transfers.seq + 0.25 <= firsts.moment)
