-- elsewhere: ops whose outputs another op of their kind has in the other run: they were paired with the wrong call.
-- grain: one op that is an event, or whose output differs, on a rank where some op of its API has no counterpart
-- parameters: $comparison, $target, $golden; the views results, tensors and ops, the tables blame_events, blame_ops,
--   blame_leaves and compared_units
-- The same value means the same dtype, shape and statistics, to the last bit, or the same digest if there are no
-- statistics.
-- An op that only one run has shifts the call numbers of later ops of its name, so that these are different calls. All
-- outputs that differ (constant ones do not count) have their value among the other run's outputs of that API. The target has
-- as many of a value as golden: else one of them is missing. What it has more often, an op gives that changes nothing.
WITH
    uneven AS (
        SELECT DISTINCT step, rank, api_key FROM blame_ops WHERE side <> 'pair'
    ),
    asked AS (
        SELECT step, rank, place, side, target_seq, golden_seq, api_key
        FROM blame_ops
        SEMI JOIN uneven USING (step, rank, api_key)
        WHERE output_differs OR EXISTS (
            FROM blame_events AS events
            WHERE events.step = blame_ops.step AND events.rank = blame_ops.rank AND events.place = blame_ops.place
        )
    ),
    outputs AS (
        SELECT
            events.step,
            events.rank,
            events.place,
            events.side,
            events.golden_seq,
            events.api_key,
            if(
                events.side = 'golden',
                hash(
                    golden_dtype, golden_shape, golden_max, golden_min, golden_mean, golden_norm,
                    if(golden_max IS NULL, golden_digest, NULL)
                ),
                hash(
                    target_dtype, target_shape, target_max, target_min, target_mean, target_norm,
                    if(target_max IS NULL, target_digest, NULL)
                )
            ) AS key
        FROM asked AS events
        JOIN blame_leaves AS leaves
            ON leaves.step = events.step
            AND leaves.rank = events.rank
            AND if(events.side = 'golden', leaves.golden_seq = events.golden_seq, leaves.target_seq = events.target_seq)
            AND NOT leaves.is_input
            AND leaves.is_tensor
        JOIN results
            ON results.step = leaves.step
            AND results.rank = leaves.rank
            AND results.row = leaves.row
        WHERE
            comparison = $comparison
            AND if(
                events.side = 'golden',
                if(golden_max IS NULL, golden_digest IS NOT NULL, golden_max <> golden_min),
                if(target_max IS NULL, target_digest IS NOT NULL, target_max <> target_min)
            )
    ),
    apis AS (
        SELECT DISTINCT api_key FROM outputs
    ),
    wanted_ops AS (
        SELECT run = $golden AS is_golden, run, step, rank, seq, hash(api_type, api) AS api_key
        FROM ops
        WHERE run IN ($target, $golden) AND EXISTS (FROM apis) AND hash(api_type, api) IN (FROM apis)
    ),
    made AS (
        SELECT DISTINCT
            wanted_ops.is_golden,
            coalesce(units.step, tensors.step) AS step,
            coalesce(units.rank, tensors.rank) AS rank,
            tensors.seq,
            api_key,
            hash(dtype, shape, max, min, mean, norm, if(max IS NULL, digest, NULL)) AS key
        FROM tensors
        JOIN wanted_ops USING (run, step, rank, seq)
        LEFT JOIN compared_units AS units
            ON is_golden AND units.golden_step = tensors.step AND units.golden_rank = tensors.rank
        WHERE
            role NOT IN ('input', 'parameters')
            AND tensors.kind = 'tensor'
            AND run IN ($target, $golden)
            AND EXISTS (FROM apis)
    ),
    found AS (
        SELECT
            outputs.*,
            coalesce(
                bool_or(made.is_golden = (outputs.side <> 'golden') AND (outputs.side <> 'pair' OR made.seq <> outputs.golden_seq)),
                false
            )
            AND count(*) FILTER (WHERE NOT made.is_golden)
            >= count(*) FILTER (WHERE made.is_golden AND outputs.side = 'golden') AS is_found
        FROM outputs
        LEFT JOIN made
            ON made.step = outputs.step
            AND made.rank = outputs.rank
            AND made.api_key = outputs.api_key
            AND made.key = outputs.key
        GROUP BY ALL
    )
SELECT step, rank, place
FROM found
GROUP BY ALL
HAVING bool_and(is_found)
