-- transfer_calls: the collective and point-to-point calls of a run, each with the signature of its API.
-- grain: one call of one rank
-- parameters: $run; the table transfer_signatures (schemas/data/collectives.csv)
-- The signatures give the positions and keywords of arguments. PyTorch's torch.distributed and
-- mindspore.mint.distributed share them; is_function marks those of MindSpore's comm_func.
-- is_waited_for: the results of an asynchronous call were recorded when they had arrived, as lakeprobe does
WITH
    communication AS (
        SELECT
            ops.step,
            ops.rank,
            ops.seq,
            ops.op,
            ops.first_row,
            coalesce(ops.extra ->> '$.waited_for' = 'true', false) AS is_waited_for,
            split_part(ops.api, '.', -1) AS api,
            if(dumps.framework = 'mindspore' AND ops.api_type <> 'MintDistributed', 1, 0) AS is_function,
            list_filter(
                coalesce(CAST(ops.empties AS JSON[]), []), lambda hole: json_array_length(hole) = 3
            ) AS empties
        FROM ops
        JOIN dumps ON dumps.run = ops.run AND dumps.step = ops.step AND dumps.rank = ops.rank
        WHERE
            ops.run = $run
            AND ops.direction = 'forward'
            AND ops.kind <> 'module'
            AND (ops.api_type IN ('Distributed', 'MintDistributed') OR ops.op LIKE 'communication.%')
    )
FROM communication
JOIN transfer_signatures USING (is_function, api)
