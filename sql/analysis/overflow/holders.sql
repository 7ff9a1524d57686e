-- holders: the critical module around the first op of a rank with NaN or inf, if that op only received it.
-- grain: one rank in one step
-- parameters: $run; the view ops, the tables overflow_levels, overflow_judged, overflow_handed_on
-- If only modules are recorded, NaN may arise between them: it is in the input of a module and no recorded op output
-- it, so it arose in the innermost module around it whose own inputs are finite.
-- from_parameters: it is in the weights of the op or of a module around it, so it did not arise there
WITH RECURSIVE
    bad AS (
        FROM overflow_levels
        WHERE bad_in > 0 OR bad_out > 0
    ),
    firsts AS (
        SELECT step, rank, min(bad.seq) AS seq
        FROM bad
        GROUP BY ALL
        HAVING arg_min(level, bad.seq) <> 'critical'
    ),
    unexplained AS (
        FROM firsts
        WHERE
            NOT EXISTS (
                FROM overflow_handed_on AS arrived
                WHERE arrived.step = firsts.step AND arrived.rank = firsts.rank AND arrived.seq <= firsts.seq
            )
    ),
    modules AS MATERIALIZED (
        SELECT step, rank, part, seq, op, parent
        FROM ops
        WHERE run = $run AND kind = 'module'
    ),
    around (step, rank, part, seq, parent, depth) AS (
        SELECT step, rank, part, seq, parent, 0
        FROM ops
        JOIN unexplained USING (step, rank, seq)
        WHERE run = $run
        UNION ALL
        SELECT step, rank, part, modules.seq, modules.parent, depth + 1
        FROM around
        JOIN modules USING (step, rank, part)
        WHERE modules.op = around.parent AND depth < 100
    )
SELECT
    step,
    rank,
    arg_min(seq, depth) FILTER (bad.level = 'critical') AS holder_seq,
    bool_or(
        EXISTS (
            FROM overflow_judged AS leaf
            WHERE
                leaf.step = around.step
                AND leaf.rank = around.rank
                AND leaf.seq = around.seq
                AND leaf.expected IS NULL
                AND leaf.role = 'parameters'
        )
    ) AS from_parameters
FROM around
LEFT JOIN bad USING (step, rank, seq)
GROUP BY ALL
HAVING holder_seq IS NOT NULL
