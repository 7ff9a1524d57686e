-- transfer_counts: the number of arguments and outputs of the sampled calls.
-- grain: one call
-- args: positional arguments; inputs: all arguments
-- parameters: the tables transfer_arguments and transfer_samples
WITH
    counted AS (
        SELECT
            step,
            rank,
            seq,
            coalesce(max(TRY_CAST(key AS INTEGER)) FILTER (WHERE section = 'input_args') + 1, 0) AS args,
            count(*) FILTER (WHERE section <> 'output') AS inputs,
            count(*) FILTER (WHERE section = 'output') AS outputs
        FROM transfer_arguments
        GROUP BY ALL
    )
SELECT
    samples.step,
    samples.rank,
    samples.seq,
    -- an empty list has no leaf, so as the last positional argument it would not be counted
    greatest(
        coalesce(args, 0),
        coalesce(list_max([TRY_CAST(hole->>1 AS INTEGER) + 1 FOR hole IN empties IF hole->>0 = 'input_args']), 0)
    ) AS args,
    coalesce(inputs, 0) + len([hole FOR hole IN empties IF hole->>0 <> 'output']) AS inputs,
    coalesce(outputs, 0) + len([hole FOR hole IN empties IF hole->>0 = 'output']) AS outputs
FROM transfer_samples AS samples
LEFT JOIN counted USING (step, rank, seq)
