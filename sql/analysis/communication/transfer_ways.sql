-- transfer_ways: for each call the first call of its rank that was made in the same way.
-- grain: one call
-- A rank makes many calls in few ways. A way is the hash of everything that later stages read except the position in
-- the dump. One call of each way is read, and the result applies to the others, whose rows are elsewhere.
-- sample: the first call of the same way; shift: how far after its rows this call's rows are
-- parameters: the tables transfer_calls and transfer_leaves
WITH
    ways AS (
        SELECT
            calls.step,
            calls.rank,
            calls.seq,
            any_value(calls.op) AS op,
            any_value(calls.first_row) AS first_row,
            any_value(hash(api, is_function, empties)) + coalesce(sum(hash(
                row - first_row,
                section,
                path,
                recorded.kind,
                value,
                if(recorded.kind <> 'tensor' OR calls.kind = 'batch', extra, NULL)
            )), 0) AS way
        FROM transfer_calls AS calls
        LEFT JOIN transfer_leaves AS recorded USING (step, rank, seq)
        GROUP BY ALL
    )
SELECT
    step,
    rank,
    seq,
    op,
    first_value(seq) OVER same_way AS sample,
    CAST(first_row - first_value(first_row) OVER same_way AS INTEGER) AS shift
FROM ways
WINDOW same_way AS (PARTITION BY step, rank, way ORDER BY seq)
