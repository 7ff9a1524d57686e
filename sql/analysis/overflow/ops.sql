-- ops: the ops of a run with a level, and where their NaN or inf came from.
-- grain: one op
-- parameters: $run, $worst (critical, high or medium: this level and worse), $most; the view ops, the tables
--   overflow_levels, overflow_origins, overflow_births
-- came_in, came_out, advice: for the ops of overflow_births
-- norm_jump: largest output norm over largest input norm, if above 100; source: the op of this rank that it came from
SELECT
    levels.step,
    levels.rank,
    levels.seq,
    ops.op,
    levels.level,
    coalesce(origins.origin, 'norm jump') AS origin,
    source.op AS source,
    origins.sources AS received_from,
    levels.bad_in,
    levels.bad_out,
    levels.jump AS norm_jump,
    ops.parent AS module,
    coalesce(births.code, user_frame(stacks.frames)) AS code,
    births.came_in,
    births.came_out,
    births.advice
FROM (
    FROM overflow_levels
    WHERE list_position(['medium', 'high', 'critical'], level) >= list_position(['medium', 'high', 'critical'], $worst)
    ORDER BY step, seq, rank
    LIMIT $most
) AS levels
JOIN ops ON ops.run = $run AND ops.step = levels.step AND ops.rank = levels.rank AND ops.seq = levels.seq
LEFT JOIN overflow_origins AS origins
    ON origins.step = levels.step
    AND origins.rank = levels.rank
    AND origins.seq = levels.seq
LEFT JOIN overflow_births AS births
    ON births.step = levels.step
    AND births.rank = levels.rank
    AND births.seq = levels.seq
LEFT JOIN ops AS source
    ON source.run = $run
    AND source.step = levels.step
    AND source.rank = levels.rank
    AND source.seq = origins.source_seq
LEFT JOIN stacks
    ON stacks.run = $run
    AND stacks.step = levels.step
    AND stacks.rank = levels.rank
    AND stacks.stack = ops.stack
ORDER BY levels.step, levels.seq, levels.rank
