-- edges: from which earlier ops an op that differs may have its difference.
-- grain: one op, and one earlier op, or op of another rank, that passed something different to it
-- parameters: $comparison, $ranks (a list); the view results, the tables blame_ops, blame_incoming, blame_leaves,
--   blame_meetings and transfers
-- how: from the most to the least certain:
--   value: an input is the latest earlier output with the same value (as in blame/unexplained.sql), or, if a module and
--     an op in it both output it, that op
--   saved: a backward op uses the inputs and outputs of its forward op
--   inside: a module's output is that of the last op in it
--   meeting: a transfer receives what another rank sent
--   order: none of these, so the latest earlier op; an op between the two is not recorded
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
            inputs.seq,
            coalesce(outputs.seq, modules.seq) AS from_seq,
            inputs.error
        FROM inputs
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
    before AS (
        SELECT step, rank, target_seq AS seq FROM nodes WHERE output_touched AND NOT is_container
        UNION
        -- the record of a transfer may lack what it received
        SELECT step, rank, seq FROM blame_meetings WHERE brought_error > 0 AND list_contains($ranks, rank)
    ),
    by_order AS (
        SELECT nodes.step, nodes.rank, nodes.target_seq AS seq, before.seq AS from_seq
        FROM nodes
        ASOF JOIN before ON before.step = nodes.step AND before.rank = nodes.rank AND before.seq < nodes.target_seq
    ),
    every AS (
        SELECT step, rank, seq, rank AS from_rank, from_seq, 'value' AS how, error, NULL AS meeting
        FROM by_value
        WHERE from_seq IS NOT NULL
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
