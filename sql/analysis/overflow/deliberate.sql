-- deliberate: the ops with NaN or inf only because their arguments, or the values they use, contain it.
-- grain: one op
-- parameters: none; the table overflow_settled
-- An op is deliberate if each of its inputs with NaN or inf is excused or comes from a deliberate op, and its
-- outputs have only the kinds that these inputs have: NaN from -inf is born there. A number in the call counts only for
-- ops that write it into their output (fillers). Products, differences and negations may flip the sign.
WITH RECURSIVE
    candidates AS (
        SELECT
            step,
            rank,
            seq,
            coalesce(bit_or(kinds) FILTER (side = 'in' AND (kind = 'tensor' OR is_filler)), 0) AS brought,
            if(
                (brought & 6) > 0 AND any_value(regexp_matches(name, 'mul|neg|sub|div')),
                brought | 6,
                brought
            ) AS allowed,
            coalesce(bit_or(kinds) FILTER (side = 'out'), 0) AS put_out,
            coalesce(list_distinct(list(producer) FILTER (side = 'in' AND excuse IS NULL)), []) AS sources,
            count(*) FILTER (side = 'in' AND excuse IS NULL AND producer IS NULL) AS unexplained
        FROM overflow_settled
        GROUP BY ALL
        HAVING brought > 0 AND (put_out & ~allowed) = 0 AND unexplained = 0
    ),
    waiting AS (
        SELECT step, rank, seq, unnest(sources) AS producer
        FROM candidates
        WHERE len(sources) > 0
    ),
    deliberate (step, rank, seq, is_deliberate) USING KEY (step, rank, seq) AS (
        SELECT step, rank, seq, true
        FROM candidates
        WHERE len(sources) = 0
        UNION
        SELECT waiting.step, waiting.rank, waiting.seq, true
        FROM waiting
        LEFT JOIN recurring.deliberate AS source
            ON source.step = waiting.step
            AND source.rank = waiting.rank
            AND source.seq = waiting.producer
        WHERE (waiting.step, waiting.rank, waiting.seq) NOT IN (SELECT (step, rank, seq) FROM recurring.deliberate)
        GROUP BY waiting.step, waiting.rank, waiting.seq
        HAVING count(*) = count(source.seq)
    )
FROM deliberate
