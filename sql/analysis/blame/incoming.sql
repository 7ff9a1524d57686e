-- incoming: the error of everything that an op works on: its recorded inputs, and what reaches it in other ways.
-- grain: one op of blame_ops that the target has
-- parameters: the tables blame_ops and blame_meetings
-- incoming_error: the largest error of the op's own inputs; of the inputs and outputs of its forward op (a backward op
--   uses the tensors saved then); of what any rank put into its meeting; for the gradients of a module's parameters, of
--   what reached the module in the forward and backward pass
-- brought_error, from_rank, meeting: what came from another rank
-- is_absent: a member of its group is not in the lake; overwritten: its record cannot be trusted; asynchronous: its
--   output may have been recorded before it arrived
-- is_container: an op inside the module differs too, so the module only shows that op's difference
WITH
    saved AS (
        SELECT step, rank, kind, api_key, call, max(greatest(input_error, output_error)) AS error
        FROM blame_ops
        WHERE direction = 'forward' AND target_seq IS NOT NULL
        GROUP BY ALL
    ),
    reached AS (
        SELECT
            step,
            rank,
            api_key,
            max(if(direction = 'forward', greatest(input_error, output_error), input_error)) AS error
        FROM blame_ops
        WHERE direction IN ('forward', 'backward') AND kind = 'module' AND target_seq IS NOT NULL
        GROUP BY ALL
    ),
    met AS (
        SELECT
            step,
            rank,
            seq,
            max(brought_error) AS brought_error,
            max(own_error) AS own_error,
            first({'from_rank': from_rank, 'meeting': meeting} ORDER BY brought_error DESC, from_rank, meeting) AS most,
            bool_or(is_absent) AS is_absent,
            bool_or(overwritten) AS overwritten,
            bool_or(asynchronous) AS asynchronous
        FROM blame_meetings
        GROUP BY ALL
    ),
    parents AS (
        SELECT DISTINCT step, rank, parent_key AS op_key FROM blame_ops WHERE parent_key IS NOT NULL
    )
SELECT
    blame_ops.step,
    blame_ops.rank,
    blame_ops.target_seq,
    greatest(
        input_error,
        coalesce(saved.error, 0),
        coalesce(reached.error, 0),
        coalesce(met.own_error, 0),
        coalesce(brought_error, 0)
    ) AS incoming_error,
    coalesce(brought_error, 0) AS brought_error,
    most['from_rank'] AS from_rank,
    most['meeting'] AS meeting,
    coalesce(is_absent, false) AS is_absent,
    coalesce(overwritten, false) AS overwritten,
    coalesce(asynchronous, false) AS asynchronous,
    parents.op_key IS NOT NULL AS is_container
FROM blame_ops
LEFT JOIN saved
    ON blame_ops.direction = 'backward'
    AND saved.kind = blame_ops.kind
    AND saved.step = blame_ops.step
    AND saved.rank = blame_ops.rank
    AND saved.api_key = blame_ops.api_key
    AND saved.call = blame_ops.call
LEFT JOIN reached
    ON blame_ops.direction = 'parameters_grad'
    AND reached.step = blame_ops.step
    AND reached.rank = blame_ops.rank
    AND reached.api_key = blame_ops.api_key
LEFT JOIN met
    ON met.step = blame_ops.step
    AND met.rank = blame_ops.rank
    AND met.seq = blame_ops.target_seq
LEFT JOIN parents
    ON parents.step = blame_ops.step
    AND parents.rank = blame_ops.rank
    AND parents.op_key = blame_ops.op_key
WHERE blame_ops.target_seq IS NOT NULL
