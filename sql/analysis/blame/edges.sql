-- edges: from which earlier ops an op that differs may have its difference.
-- grain: one op, and one earlier op, or op of another rank, that passed something different to it
-- parameters: $comparison, $ranks (a list); the view results, the tables blame_ops, blame_incoming, blame_leaves,
--   blame_meetings, standing and transfers
-- how: from the most to the least certain:
--   value: an input is the latest earlier output with the same value (as in blame/unexplained.sql), or, if a module and
--     an op in it both output it, that op, and the module too where the recorded inputs of that op do not explain it
--   saved: a backward op uses the inputs and outputs of its forward op
--   inside: a module's output is that of the last op in it
--   meeting: a transfer receives what another rank sent
--   order: an input that differs has none of these, so it may come of the latest earlier op of whose output nothing else was
--     made. An op between the two was not recorded, or not compared. An optimizer passes nothing on so: each of its
--     parameters is updated by itself
-- error: the error that was passed on; less than a hundredth of the op's largest is left out
WITH
    nodes AS (
        SELECT blame_ops.*, is_container
        FROM blame_ops
        JOIN blame_incoming USING (step, rank, target_seq)
        WHERE list_contains($ranks, rank)
    ),
    leaf_values AS (
        SELECT
            leaves.step,
            leaves.rank,
            leaves.row,
            leaves.target_seq AS seq,
            leaves.is_input,
            leaves.error,
            nodes.is_container,
            hash(
                target_dtype,
                coalesce(list_aggregate(target_shape, 'product'), 1),
                target_max,
                target_min,
                if(target_max IS NULL, target_digest, NULL)
            ) AS key
        FROM blame_leaves AS leaves
        JOIN nodes ON nodes.step = leaves.step AND nodes.rank = leaves.rank AND nodes.target_seq = leaves.target_seq
        JOIN results ON results.step = leaves.step AND results.rank = leaves.rank AND results.row = leaves.row
        WHERE comparison = $comparison AND leaves.is_tensor AND (target_max IS NOT NULL OR target_digest IS NOT NULL)
    ),
    inputs AS (
        SELECT * FROM leaf_values WHERE is_input
    ),
    outputs AS (
        SELECT * FROM leaf_values WHERE NOT is_input AND NOT is_container
    ),
    modules AS (
        SELECT * FROM leaf_values WHERE NOT is_input AND is_container
    ),
    by_value AS (
        SELECT
            inputs.step,
            inputs.rank,
            inputs.row,
            inputs.seq,
            coalesce(outputs.seq, modules.seq) AS from_seq,
            modules.seq AS module_seq,
            inputs.first_seq,
            inputs.error
        FROM (SELECT *, min(seq) OVER (PARTITION BY step, rank, key) AS first_seq FROM inputs) AS inputs
        ASOF LEFT JOIN outputs
            ON outputs.step = inputs.step
            AND outputs.rank = inputs.rank
            AND outputs.key = inputs.key
            AND outputs.seq < inputs.seq
        ASOF LEFT JOIN modules
            ON modules.step = inputs.step
            AND modules.rank = inputs.rank
            AND modules.key = inputs.key
            AND modules.seq < inputs.seq
    ),
    by_saved AS (
        SELECT
            backward.step,
            backward.rank,
            backward.target_seq AS seq,
            forward.target_seq AS from_seq,
            greatest(forward.input_error, forward.output_error) AS error
        FROM nodes AS backward
        JOIN nodes AS forward USING (step, rank, kind, api_key, call)
        WHERE backward.direction = 'backward' AND forward.direction = 'forward'
    ),
    by_parent AS (
        SELECT
            module.step,
            module.rank,
            module.target_seq AS seq,
            max(inner_op.target_seq) AS from_seq,
            module.output_error AS error
        FROM nodes AS module
        JOIN nodes AS inner_op
            ON inner_op.step = module.step
            AND inner_op.rank = module.rank
            AND inner_op.parent_key = module.op_key
            AND inner_op.target_seq < module.target_seq
        WHERE module.is_container
        GROUP BY ALL
    ),
    givers AS (
        SELECT step, meeting, rank, seq
        FROM transfers
        WHERE given IS NOT NULL AND list_contains($ranks, rank)
    ),
    by_meeting AS (
        SELECT
            taker.step,
            taker.rank,
            taker.seq,
            givers.rank AS from_rank,
            givers.seq AS from_seq,
            max(nodes.input_error) AS error,
            taker.meeting
        FROM blame_meetings AS taker
        JOIN givers ON givers.step = taker.step AND givers.meeting = taker.meeting AND givers.rank <> taker.rank
        JOIN nodes ON nodes.step = givers.step AND nodes.rank = givers.rank AND nodes.target_seq = givers.seq
        WHERE brought_error > 0 AND list_contains($ranks, taker.rank) AND nodes.input_error > 0
        GROUP BY ALL
    ),
    made AS (
        SELECT DISTINCT step, rank, from_seq AS target_seq FROM by_value WHERE from_seq IS NOT NULL
    ),
    before AS (
        SELECT step, rank, target_seq AS seq
        FROM nodes
        ANTI JOIN made USING (step, rank, target_seq)
        WHERE output_touched AND NOT is_container AND NOT is_update
        UNION
        -- the record of a transfer may lack what it received
        SELECT step, rank, seq FROM blame_meetings WHERE brought_error > 0 AND list_contains($ranks, rank)
    ),
    -- what an earlier op took already was made before that one, and what no recorded op made came of none
    unexplained AS (
        SELECT
            by_value.step,
            by_value.rank,
            seq,
            max(first_seq) AS first_seq
        FROM by_value
        JOIN nodes ON nodes.step = by_value.step AND nodes.rank = by_value.rank AND nodes.target_seq = by_value.seq
        ANTI JOIN (SELECT step, rank, row FROM standing WHERE evidence = 'source') AS sources
            ON sources.step = by_value.step AND sources.rank = by_value.rank AND sources.row = by_value.row
        WHERE from_seq IS NULL AND error > 0 AND NOT is_update
        GROUP BY ALL
    ),
    by_order AS (
        SELECT unexplained.step, unexplained.rank, unexplained.seq, before.seq AS from_seq
        FROM unexplained
        ASOF JOIN before
            ON before.step = unexplained.step
            AND before.rank = unexplained.rank
            AND before.seq < unexplained.first_seq
    ),
    every AS (
        SELECT step, rank, seq, rank AS from_rank, from_seq, 'value' AS how, error, NULL AS meeting
        FROM by_value
        WHERE from_seq IS NOT NULL
        UNION ALL
        SELECT by_value.step, by_value.rank, seq, by_value.rank, module_seq, 'value', error, NULL
        FROM by_value
        JOIN nodes AS maker
            ON maker.step = by_value.step AND maker.rank = by_value.rank AND maker.target_seq = by_value.from_seq
        WHERE module_seq <> from_seq AND maker.input_error < getvariable('carried_share') * maker.output_error
        UNION ALL
        SELECT step, rank, seq, rank, from_seq, 'saved', error, NULL
        FROM by_saved
        UNION ALL
        SELECT step, rank, seq, rank, from_seq, 'inside', error, NULL
        FROM by_parent
        UNION ALL
        SELECT step, rank, seq, from_rank, from_seq, 'meeting', error, meeting
        FROM by_meeting
        UNION ALL
        SELECT step, rank, seq, rank, from_seq, 'order', 0, NULL
        FROM by_order
    )
SELECT *
FROM every
QUALIFY how = 'order' OR error >= getvariable('carried_share') * max(error) OVER (PARTITION BY step, rank, seq)
