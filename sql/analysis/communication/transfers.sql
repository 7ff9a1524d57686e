-- transfers: every collective and point-to-point call of a run with its group, its partners and its tensors.
-- grain: one transfer of one rank: a collective call, one send or receive, or one P2POp of a batch
-- parameters: $run
-- Where an op works in place, msprobe records as its output all its arguments, positional then keyword, so the
-- argument at place k of the input is output.k. A function (MindSpore's comm_func) returns what the rank takes.
-- All members of a group call its collectives in one order, so the n-th call of a kind on each is one meeting;
-- the root is left out of that, so that a wrong one still meets. Sends meet receives per sender, receiver and tag.
-- Only who holds itself to be the root gives to a broadcast or scatter, or takes from a gather or reduce.
WITH
    -- places and keywords of the arguments; PyTorch's torch.distributed and mindspore.mint.distributed share them
    signatures (
        is_function, api, kind, given_at, given_name, taken_at, taken_name, peer_at, reduction_at, group_at, async_at
    ) AS (
        VALUES
            (0, 'broadcast', 'broadcast', '0', 'tensor', '0', 'tensor', '1', NULL, '2', '3'),
            (0, 'all_reduce', 'all_reduce', '0', 'tensor', '0', 'tensor', NULL, '1', '2', '3'),
            (0, 'reduce', 'reduce', '0', 'tensor', '0', 'tensor', '1', '2', '3', '4'),
            (0, 'all_gather', 'all_gather', '1', 'tensor', '0', 'tensor_list', NULL, NULL, '2', '3'),
            (0, 'all_gather_into_tensor', 'all_gather', '1', 'input_tensor', '0', 'output_tensor',
                NULL, NULL, '2', '3'),
            (0, 'all_gather_single', 'all_gather', '1', 'input', '0', 'output', NULL, NULL, '2', '3'),
            (0, '_all_gather_base', 'all_gather', '1', 'input_tensor', '0', 'output_tensor', NULL, NULL, '2', '3'),
            (0, 'gather', 'gather', '0', 'tensor', '1', 'gather_list', '2', NULL, '3', '4'),
            (0, 'scatter', 'scatter', '1', 'scatter_list', '0', 'tensor', '2', NULL, '3', '4'),
            (0, 'reduce_scatter', 'reduce_scatter', '1', 'input_list', '0', 'output', NULL, '2', '3', '4'),
            (0, 'reduce_scatter_tensor', 'reduce_scatter', '1', 'input', '0', 'output', NULL, '2', '3', '4'),
            (0, 'reduce_scatter_single', 'reduce_scatter', '1', 'input', '0', 'output', NULL, '2', '3', '4'),
            (0, '_reduce_scatter_base', 'reduce_scatter', '1', 'input', '0', 'output', NULL, '2', '3', '4'),
            (0, 'all_to_all_single', 'all_to_all', '1', 'input', '0', 'output', NULL, NULL, '4', '5'),
            (0, 'all_to_all', 'all_to_all', '1', 'input_tensor_list', '0', 'output_tensor_list', NULL, NULL, '2', '3'),
            (0, 'send', 'send', '0', 'tensor', NULL, NULL, '1', NULL, '2', NULL),
            (0, 'isend', 'send', '0', 'tensor', NULL, NULL, '1', NULL, '2', NULL),
            (0, 'recv', 'recv', NULL, NULL, '0', 'tensor', '1', NULL, '2', NULL),
            (0, 'irecv', 'recv', NULL, NULL, '0', 'tensor', '1', NULL, '2', NULL),
            (0, 'barrier', 'barrier', NULL, NULL, NULL, NULL, NULL, NULL, '0', '1'),
            (0, 'all_gather_object', 'all_gather', NULL, NULL, NULL, NULL, NULL, NULL, '2', NULL),
            (0, 'broadcast_object_list', 'broadcast', NULL, NULL, NULL, NULL, '1', NULL, '2', NULL),
            (0, 'gather_object', 'gather', NULL, NULL, NULL, NULL, '2', NULL, '3', NULL),
            (0, 'scatter_object_list', 'scatter', NULL, NULL, NULL, NULL, '2', NULL, '3', NULL),
            (0, 'send_object_list', 'send', NULL, NULL, NULL, NULL, '1', NULL, '2', NULL),
            (0, 'recv_object_list', 'recv', NULL, NULL, NULL, NULL, '1', NULL, '2', NULL),
            (0, 'batch_isend_irecv', 'batch', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
            (1, 'broadcast', 'broadcast', '0', 'tensor', '0', NULL, '1', NULL, '2', NULL),
            (1, 'all_reduce', 'all_reduce', '0', 'tensor', '0', NULL, NULL, '1', '2', '3'),
            (1, 'reduce', 'reduce', '0', 'tensor', '0', NULL, '1', '2', '3', NULL),
            (1, 'all_gather_into_tensor', 'all_gather', '0', 'tensor', '0', NULL, NULL, NULL, '1', '2'),
            (1, 'gather_into_tensor', 'gather', '0', 'tensor', '0', NULL, '1', NULL, '2', NULL),
            (1, 'scatter_tensor', 'scatter', '0', 'tensor', '0', NULL, '1', NULL, '2', NULL),
            (1, 'reduce_scatter_tensor', 'reduce_scatter', '0', 'tensor', '0', NULL, NULL, '1', '2', '3'),
            (1, 'all_to_all_single_with_output_shape', 'all_to_all', '1', 'tensor', '0', NULL, NULL, NULL, '4', '5'),
            (1, 'all_to_all_with_output_shape', 'all_to_all', '1', 'input_tensor_list', '0',
                NULL, NULL, NULL, '2', '3'),
            (1, 'send', 'send', '0', 'tensor', NULL, NULL, '1', NULL, '2', NULL),
            (1, 'isend', 'send', '0', 'tensor', NULL, NULL, '1', NULL, '2', NULL),
            (1, 'recv', 'recv', NULL, NULL, '0', NULL, '1', NULL, '2', NULL),
            (1, 'irecv', 'recv', NULL, NULL, '0', NULL, '1', NULL, '2', NULL),
            (1, 'barrier', 'barrier', NULL, NULL, NULL, NULL, NULL, NULL, '0', NULL),
            (1, 'batch_isend_irecv', 'batch', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
    ),
    communication AS (
        SELECT
            ops.step,
            ops.rank,
            ops.seq,
            ops.op,
            ops.first_row,
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
    ),
    calls AS (
        FROM communication
        JOIN signatures USING (is_function, api)
    ),
    recorded AS (
        SELECT
            tensors.step,
            tensors.rank,
            tensors.seq,
            tensors.row,
            tensors.role,
            tensors.section,
            tensors.path,
            tensors.slot,
            tensors.kind,
            tensors.value,
            tensors.extra
        FROM tensors
        JOIN calls ON calls.step = tensors.step AND calls.rank = tensors.rank AND calls.seq = tensors.seq
        WHERE tensors.run = $run AND tensors.role IN ('input', 'output')
    ),
    -- A rank makes many calls in few ways. A way is known by a hash of all that is read below but for the place in the
    -- dump; one call of each way is read, and what comes of it holds for the others, whose rows stand elsewhere.
    ways AS (
        SELECT
            calls.step,
            calls.rank,
            calls.seq,
            any_value(calls.op) AS op,
            any_value(calls.first_row) AS first_row,
            any_value(hash(api, is_function, empties)) + coalesce(sum(hash(
                row - first_row,
                section,
                path,
                recorded.kind,
                value,
                if(recorded.kind <> 'tensor' OR calls.kind = 'batch', extra, NULL)
            )), 0) AS way
        FROM calls
        LEFT JOIN recorded USING (step, rank, seq)
        GROUP BY ALL
    ),
    -- sample: the first call of the same way; shift: how far behind its rows this call's stand
    sampled AS (
        SELECT
            step,
            rank,
            seq,
            op,
            first_value(seq) OVER same_way AS sample,
            CAST(first_row - first_value(first_row) OVER same_way AS INTEGER) AS shift
        FROM ways
        WINDOW same_way AS (PARTITION BY step, rank, way ORDER BY seq)
    ),
    samples AS (
        SELECT calls.*
        FROM calls
        SEMI JOIN sampled ON sampled.step = calls.step AND sampled.rank = calls.rank AND sampled.sample = calls.seq
    ),
    -- key: place or keyword of the argument (or place of the output) that the leaf belongs to; rest: its path in there
    leaves AS (
        SELECT
            recorded.step,
            recorded.rank,
            recorded.seq,
            recorded.row,
            recorded.role,
            recorded.section,
            if(samples.kind = 'batch', recorded.slot, NULL) AS slot,
            recorded.kind,
            recorded.value,
            recorded.extra,
            strpos(recorded.path, ',') > 0 AS in_list,
            trim(split_part(recorded.path, ',', 1), '["]') AS key,
            if(samples.kind = 'batch', recorded.path[strpos(recorded.path, ',') + 1:-2], NULL) AS rest
        FROM recorded
        JOIN samples USING (step, rank, seq)
    ),
    filled AS (
        SELECT
            step,
            rank,
            seq,
            section,
            key,
            row,
            kind,
            value,
            extra,
            if(kind = 'tensor', [row], NULL) AS rows,
            NULL AS texts
        FROM leaves
        WHERE NOT in_list
        UNION ALL
        SELECT
            step,
            rank,
            seq,
            section,
            key,
            min(row) AS row,
            arg_min(kind, row) AS kind,
            arg_min(value, row) AS value,
            arg_min(extra, row) AS extra,
            list(row ORDER BY row) FILTER (WHERE kind = 'tensor') AS rows,
            list(value ORDER BY row) FILTER (WHERE kind = 'scalar') AS texts
        FROM leaves
        WHERE in_list
        GROUP BY ALL
    ),
    counted AS (
        SELECT
            step,
            rank,
            seq,
            coalesce(max(TRY_CAST(key AS INTEGER)) FILTER (WHERE section = 'input_args') + 1, 0) AS args,
            count(*) FILTER (WHERE section <> 'output') AS inputs,
            count(*) FILTER (WHERE section = 'output') AS outputs
        FROM filled
        GROUP BY ALL
    ),
    numbers AS (
        SELECT
            samples.step,
            samples.rank,
            samples.seq,
            -- an empty list has no leaf; as the last positional argument it would go uncounted
            greatest(
                coalesce(args, 0),
                coalesce(list_max([CAST(hole->>1 AS INTEGER) + 1 FOR hole IN empties IF hole->>0 = 'input_args']), 0)
            ) AS args,
            coalesce(inputs, 0) + len([hole FOR hole IN empties IF hole->>0 <> 'output']) AS inputs,
            coalesce(outputs, 0) + len([hole FOR hole IN empties IF hole->>0 = 'output']) AS outputs
        FROM samples
        LEFT JOIN counted USING (step, rank, seq)
    ),
    -- place: where the argument stands in the output
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
        FROM filled
        JOIN numbers USING (step, rank, seq)
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
        JOIN samples USING (step, rank, seq)
        GROUP BY ALL
    ),
    -- a job has few groups and many leaves that name them
    group_leaves AS (
        SELECT
            extra AS group_leaf,
            extra->>'group_id' AS group_id,
            TRY_CAST(extra->>'group_ranks' AS INTEGER[]) AS members
        FROM (SELECT DISTINCT extra FROM filled WHERE kind = 'object' AND section <> 'output' AND extra IS NOT NULL)
    ),
    known_groups AS (
        SELECT group_id, any_value(members) AS members
        FROM group_leaves
        WHERE members IS NOT NULL
        GROUP BY ALL
    ),
    -- ranks may be missing from the dump; those that a group names are there all the same
    world AS (
        SELECT CAST(range(max(rank) + 1) AS INTEGER[]) AS members
        FROM (
            SELECT max(rank) AS rank
            FROM dumps
            WHERE run = $run
            UNION ALL
            SELECT max(list_max(members))
            FROM known_groups
        )
    ),
    results AS (
        SELECT
            filled.step,
            filled.rank,
            filled.seq,
            flatten(list(rows ORDER BY row)) AS taken
        FROM filled
        JOIN samples USING (step, rank, seq)
        LEFT JOIN understood USING (step, rank, seq)
        WHERE section = 'output' AND rows IS NOT NULL AND (is_function = 1 OR key = CAST(taken_place AS VARCHAR))
        GROUP BY ALL
    ),
    single AS (
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
            coalesce(is_async, false) OR api IN ('isend', 'irecv') AS asynchronous
        FROM samples
        JOIN numbers USING (step, rank, seq)
        LEFT JOIN understood USING (step, rank, seq)
        LEFT JOIN group_leaves USING (group_leaf)
        LEFT JOIN results USING (step, rank, seq)
        WHERE
            samples.kind <> 'batch'
            -- recv and a batch call isend and irecv; what msprobe records of such a call has no inputs
            AND NOT (api IN ('isend', 'irecv') AND inputs = 0)
    ),
    p2p_inputs AS (
        SELECT
            leaves.step,
            leaves.rank,
            leaves.seq,
            samples.op,
            leaves.slot,
            if(leaves.extra->>'op' LIKE '%send%', 'send', 'recv') AS kind,
            leaves.extra->>'group_id' AS group_id,
            CAST(leaves.extra->>'peer' AS INTEGER) AS peer,
            CAST(leaves.extra->>'tag' AS INTEGER) AS tag,
            leaves.row,
            leaves.rest,
            is_function
        FROM leaves
        JOIN samples USING (step, rank, seq)
        WHERE samples.kind = 'batch' AND leaves.role = 'input' AND leaves.extra->>'peer' IS NOT NULL
    ),
    p2p AS (
        SELECT
            p2p_inputs.*,
            outputs.row AS output
        FROM p2p_inputs
        LEFT JOIN leaves AS outputs
            ON outputs.step = p2p_inputs.step
            AND outputs.rank = p2p_inputs.rank
            AND outputs.seq = p2p_inputs.seq
            AND outputs.role = 'output'
            AND p2p_inputs.rest = if(is_function = 1, outputs.key, outputs.rest)
    ),
    every AS (
        SELECT
            step,
            rank,
            seq,
            op,
            slot,
            kind,
            if(kind IN ('all_reduce', 'reduce', 'reduce_scatter'), coalesce(nullif(named_reduction, ''), 'sum'), NULL)
                AS reduction,
            group_id,
            coalesce(
                members,
                TRY_CAST(listed AS INTEGER[]),
                TRY_CAST(group_id AS INTEGER[]),
                TRY_CAST(string_split(nullif(regexp_extract(group_id, '\d+(-\d+)+$'), ''), '-') AS INTEGER[])
            ) AS members,
            peer,
            group_peer,
            if(kind IN ('send', 'recv'), tag, NULL) AS tag,
            given,
            taken,
            splits,
            overwritten,
            asynchronous
        FROM single
        UNION ALL
        SELECT
            step,
            rank,
            seq,
            op,
            slot,
            kind,
            NULL,
            group_id,
            NULL,
            peer,
            NULL,
            tag,
            if(kind = 'send', [row], NULL),
            if(kind = 'recv', [output], NULL),
            NULL,
            false,
            true
        FROM p2p
    ),
    placed AS (
        SELECT
            every.* EXCLUDE (members, peer, group_peer),
            coalesce(every.members, known_groups.members, world.members) AS members,
            CASE
                WHEN peer IS NOT NULL THEN peer
                WHEN group_peer IS NOT NULL
                THEN coalesce(every.members, known_groups.members, world.members)[group_peer + 1]
                WHEN kind IN ('broadcast', 'reduce', 'gather', 'scatter') THEN 0
            END AS peer
        FROM every
        CROSS JOIN world
        LEFT JOIN known_groups USING (group_id)
    ),
    meant AS (
        SELECT
            * REPLACE (
                if(kind IN ('broadcast', 'scatter') AND rank <> peer, NULL, given) AS given,
                if(kind IN ('reduce', 'gather') AND rank <> peer, NULL, taken) AS taken
            ),
            CASE kind
                WHEN 'send' THEN 'send ' || rank || ' → ' || peer
                WHEN 'recv' THEN 'send ' || peer || ' → ' || rank
                ELSE kind || ' ' || CAST(members AS VARCHAR)
            END || if(coalesce(tag, 0) <> 0, ' tag ' || tag, '') AS place,
            CASE kind WHEN 'send' THEN [rank, peer] WHEN 'recv' THEN [peer, rank] ELSE members END AS expected
        FROM placed
    ),
    -- number: of the place, in short
    numbered AS (
        SELECT
            *,
            dense_rank() OVER (ORDER BY step, place) AS number
        FROM meant
    ),
    called AS (
        SELECT
            numbered.* EXCLUDE (seq, op, given, taken),
            sampled.seq,
            sampled.op,
            list_transform(given, lambda row: row + shift) AS given,
            list_transform(taken, lambda row: row + shift) AS taken
        FROM sampled
        JOIN numbered
            ON numbered.step = sampled.step AND numbered.rank = sampled.rank AND numbered.seq = sampled.sample
    ),
    in_turn AS (
        SELECT
            *,
            CAST(
                row_number() OVER (
                    PARTITION BY step, rank, kind, number ORDER BY seq, coalesce(given[1], taken[1])
                ) AS INTEGER
            ) - 1 AS turn
        FROM called
    ),
    meetings AS (
        SELECT
            number,
            turn,
            list_sort(list_distinct(list(rank))) AS present,
            if(
                len(present) = len(any_value(expected)),
                [],
                list_filter(any_value(expected), lambda member: NOT list_contains(present, member))
            ) AS absent
        FROM in_turn
        GROUP BY ALL
    )
SELECT
    step,
    rank,
    seq,
    op,
    slot,
    kind,
    reduction,
    group_id,
    members,
    peer,
    turn,
    place || ' #' || turn AS meeting,
    given,
    taken,
    overwritten,
    list_concat(present[:list_position(present, rank) - 1], present[list_position(present, rank) + 1:]) AS partners,
    absent,
    asynchronous,
    splits
FROM in_turn
JOIN meetings USING (number, turn)
ORDER BY step, rank, seq, coalesce(given[1], taken[1])
