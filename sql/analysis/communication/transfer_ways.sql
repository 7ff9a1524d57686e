-- transfer_ways: for each call the first call of its rank that was made in the same way.
-- grain: one call
-- A rank makes many calls in few ways. A way is the hash of everything that later stages read except the position in
-- the dump. One call of each way is read, and the result applies to the others, whose rows are elsewhere.
-- sample: the first call of the same way; shift: how far after its rows this call's rows are
-- parameters: $run; the view tensors, the table transfer_calls
WITH
    recorded AS (
        SELECT
            calls.step,
            calls.rank,
            calls.seq,
            sum(hash(
                tensors.row - first_row,
                section,
                path,
                tensors.kind,
                value,
                if(tensors.kind <> 'tensor' OR calls.kind = 'batch', extra, NULL)
            )) AS way
        FROM tensors
        JOIN transfer_calls AS calls
            ON calls.step = tensors.step AND calls.rank = tensors.rank AND calls.seq = tensors.seq
        WHERE tensors.run = $run AND tensors.role IN ('input', 'output')
        GROUP BY ALL
    ),
    ways AS (
        SELECT
            step,
            rank,
            seq,
            op,
            first_row,
            hash(api, is_function, empties, is_waited_for) + coalesce(way, 0) AS way
        FROM transfer_calls
        LEFT JOIN recorded USING (step, rank, seq)
    ),
    firsts AS (
        SELECT step, rank, way, min(seq) AS sample, arg_min(first_row, seq) AS sample_row FROM ways GROUP BY ALL
    )
SELECT step, rank, seq, op, sample, CAST(first_row - sample_row AS INTEGER) AS shift
FROM ways
JOIN firsts USING (step, rank, way)
