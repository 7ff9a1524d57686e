-- origins: where the NaN or inf of each op came from.
-- grain: one op with an unexpected NaN or inf in an input or output
-- parameters: $run; the view ops, the tables overflow_levels, overflow_handed_on, overflow_holders
-- origin:
--   born: the inputs are finite
--   received: it came from another rank (sources)
--   forward pass: the op's own forward call had it
--   inside: born in an op inside this module
--   carried: an earlier op of this rank had it (source_seq if known)
--   earlier step: this rank had it in an earlier step
--   unseen: it was in the inputs, and no recorded op made it
-- is_first: the first of its rank and step; is_after_others: an earlier op of its rank and step had NaN or inf
WITH
    bad AS (
        FROM overflow_levels
        WHERE bad_in > 0 OR bad_out > 0
    ),
    firsts AS (
        SELECT step, rank, min(seq) AS first_seq
        FROM bad
        GROUP BY ALL
    ),
    first_steps AS (
        SELECT rank, min(step) AS first_step
        FROM bad
        GROUP BY ALL
    ),
    named AS (
        SELECT
            bad.step,
            bad.rank,
            bad.seq,
            level,
            part,
            op,
            api_type,
            api,
            coalesce(module_class, '') AS class,
            direction,
            call,
            parent
        FROM bad
        JOIN ops ON ops.run = $run AND ops.step = bad.step AND ops.rank = bad.rank AND ops.seq = bad.seq
    ),
    critical AS (
        FROM named
        WHERE level = 'critical'
    ),
    contained AS (
        SELECT step, rank, part, parent AS op, min(seq) AS inner_seq
        FROM critical
        GROUP BY ALL
    ),
    critical_origins AS (
        SELECT
            critical.step,
            critical.rank,
            critical.seq,
            min(inner_seq) AS inner_seq,
            min(forward.seq) AS forward_seq
        FROM critical
        LEFT JOIN contained USING (step, rank, part, op)
        LEFT JOIN named AS forward
            ON critical.direction = 'backward'
            AND forward.direction = 'forward'
            AND forward.step = critical.step
            AND forward.rank = critical.rank
            AND forward.part = critical.part
            AND forward.api_type = critical.api_type
            AND forward.api = critical.api
            AND forward.class = critical.class
            AND forward.call IS NOT DISTINCT FROM critical.call
        GROUP BY ALL
    ),
    arrivals AS (
        SELECT bad.step, bad.rank, bad.seq, arrived.seq AS through
        FROM bad
        ASOF JOIN overflow_handed_on AS arrived
            ON arrived.step = bad.step
            AND arrived.rank = bad.rank
            AND bad.seq >= arrived.seq
    ),
    traced AS (
        SELECT
            bad.* EXCLUDE (producer, kinds_in, is_gradient),
            first_step < bad.step AS is_later_step,
            coalesce(holder_seq IS NOT NULL AND NOT from_parameters AND NOT is_later_step, false) AS is_held,
            bad.seq = if(is_held, holder_seq, first_seq) AS is_first,
            bad.seq > first_seq AND NOT is_first AS is_after_others,
            CASE
                WHEN bad.is_gradient AND bad.seq > first_seq THEN 'carried'
                WHEN bad.level = 'critical' AND through = bad.seq THEN 'received'
                WHEN forward_seq IS NOT NULL THEN 'forward pass'
                WHEN inner_seq IS NOT NULL THEN 'inside'
                WHEN bad.level = 'critical' AND bad.seq = holder_seq AND NOT is_held THEN 'inside'
                WHEN bad.level = 'critical' THEN 'born'
                WHEN maker.seq IS NOT NULL THEN 'carried'
                WHEN through IS NOT NULL THEN 'received'
                WHEN bad.seq > first_seq OR is_held THEN 'carried'
                WHEN is_later_step THEN 'earlier step'
                ELSE 'unseen'
            END AS origin,
            CASE origin
                WHEN 'received' THEN through
                WHEN 'forward pass' THEN forward_seq
                WHEN 'inside' THEN coalesce(inner_seq, first_seq)
                WHEN 'carried' THEN coalesce(maker.seq, if(bad.seq = first_seq, holder_seq, NULL))
                WHEN 'unseen' THEN bad.producer
            END AS source_seq
        FROM bad
        JOIN firsts USING (step, rank)
        JOIN first_steps USING (rank)
        LEFT JOIN overflow_holders AS holders USING (step, rank)
        LEFT JOIN arrivals USING (step, rank, seq)
        LEFT JOIN critical_origins USING (step, rank, seq)
        LEFT JOIN bad AS maker ON maker.step = bad.step AND maker.rank = bad.rank AND maker.seq = bad.producer
    )
SELECT
    traced.*,
    if(origin = 'received', arrived.sources, NULL) AS sources
FROM traced
LEFT JOIN overflow_handed_on AS arrived
    ON arrived.step = traced.step
    AND arrived.rank = traced.rank
    AND arrived.seq = traced.source_seq
