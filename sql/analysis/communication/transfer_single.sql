-- transfer_single: the meaning of the sampled calls, except batches of sends and receives.
-- grain: one call
-- If an op works in place, msprobe records all its arguments as its output, positional ones first, so the
-- argument at position k of the input is output.k. A function (MindSpore's comm_func) returns what the rank receives.
-- parameters: the tables transfer_samples, transfer_arguments, transfer_counts and transfer_groups
WITH
    -- place: the position of the argument in the output
    arguments AS (
        SELECT
            filled.* EXCLUDE (section),
            if(section = 'input_args', key, NULL) AS nth,
            if(section = 'input_args', NULL, key) AS name,
            if(
                section = 'input_args',
                TRY_CAST(key AS INTEGER),
                args + CAST(row_number() OVER (PARTITION BY step, rank, seq, section ORDER BY row) AS INTEGER) - 1
            ) AS place
        FROM transfer_arguments AS filled
        JOIN transfer_counts USING (step, rank, seq)
        WHERE section <> 'output'
    ),
    understood AS (
        SELECT
            step,
            rank,
            seq,
            any_value(rows) FILTER (WHERE nth = given_at OR name = given_name) AS given,
            any_value(place) FILTER (WHERE nth = taken_at OR name = taken_name) AS taken_place,
            any_value(value) FILTER (WHERE nth = reduction_at OR name = 'op') AS reduction,
            coalesce(bool_or(value = 'true') FILTER (WHERE nth = async_at OR name = 'async_op'), false) AS is_async,
            any_value(TRY_CAST(value AS INTEGER)) FILTER (WHERE nth = peer_at OR name IN ('src', 'dst')) AS peer,
            any_value(TRY_CAST(value AS INTEGER)) FILTER (WHERE name IN ('group_src', 'group_dst')) AS group_peer,
            any_value(TRY_CAST(value AS INTEGER))
                FILTER (WHERE (nth = '3' AND arguments.kind = 'scalar') OR name = 'tag') AS tag,
            any_value(value)
                FILTER (WHERE (nth = group_at OR name = 'group') AND arguments.kind <> 'null') AS group_text,
            any_value(extra) FILTER (WHERE nth = group_at OR name = 'group') AS group_leaf,
            any_value(texts) FILTER (WHERE nth = group_at OR name = 'group') AS listed,
            any_value(TRY_CAST(texts AS INTEGER[])) FILTER (
                WHERE
                    name = 'input_split_sizes'
                    OR (nth = '3' AND api LIKE 'all_to_all_single%' AND arguments.kind = 'scalar')
            ) AS splits
        FROM arguments
        JOIN transfer_samples AS samples USING (step, rank, seq)
        GROUP BY ALL
    ),
    results AS (
        SELECT
            filled.step,
            filled.rank,
            filled.seq,
            flatten(list(rows ORDER BY row)) AS taken
        FROM transfer_arguments AS filled
        JOIN transfer_samples AS samples USING (step, rank, seq)
        LEFT JOIN understood USING (step, rank, seq)
        WHERE section = 'output' AND rows IS NOT NULL AND (is_function = 1 OR key = CAST(taken_place AS VARCHAR))
        GROUP BY ALL
    )
SELECT
    samples.step,
    samples.rank,
    samples.seq,
    samples.op,
    NULL AS slot,
    samples.kind,
    lower(regexp_extract(understood.reduction, '(?i)premul_sum|sum|avg|product|prod|min|max|band|bor|bxor', 0))
        AS named_reduction,
    coalesce(group_text, group_leaves.group_id) AS group_id,
    group_leaves.members,
    listed,
    peer,
    group_peer,
    tag,
    splits,
    given,
    taken,
    inputs > 0 AND outputs > 0 AND inputs <> outputs AND is_function = 0 AS overwritten,
    (coalesce(is_async, false) OR api IN ('isend', 'irecv')) AND NOT is_waited_for AS asynchronous,
    is_waited_for
FROM transfer_samples AS samples
JOIN transfer_counts USING (step, rank, seq)
LEFT JOIN understood USING (step, rank, seq)
LEFT JOIN transfer_groups AS group_leaves USING (group_leaf)
LEFT JOIN results USING (step, rank, seq)
WHERE
    samples.kind <> 'batch'
    -- recv and a batch call isend and irecv, which msprobe records without inputs
    AND NOT (api IN ('isend', 'irecv') AND inputs = 0)
