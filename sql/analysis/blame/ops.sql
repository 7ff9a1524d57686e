-- ops: the ops of a comparison that are not completely equal: what they are, and the errors of inputs and outputs.
-- grain: one op of one (step, rank): an op of the target with its counterpart, or an op of golden alone
-- parameters: $comparison, $target, $golden (runs); the views results and ops, the tables blame_leaves, compared_units,
--   standing and noise_ends
-- golden_seq: the op's counterpart; of several (leaves that are paired one by one may have them) the first
-- place: the op's place in the target; an op that only the golden run has follows the paired op before it, and the
--   gradients of a module's parameters follow its backward op
-- side: pair, target or golden
-- input_error, output_error: the largest error of the tensors; 0 if all are equal. Of other outputs only where no tensor
--   differs: a collective's arguments are among its outputs
-- output_differs: an output differs by more than float noise; output_touched: an output is not equal
-- only_digests: only digests differ; other_tensors: a tensor has another dtype or shape
-- is_update: an optimizer called it
-- arguments: the rows of arguments that differ (blame_leaves.is_argument)
-- api_key, call, is_forward: what identifies a backward op and its forward op, and which of them it is
WITH
    measured AS (
        SELECT
            step,
            rank,
            target_seq,
            min(golden_seq) AS golden_seq,
            coalesce(max(error) FILTER (WHERE is_input AND NOT is_argument), 0) AS input_error,
            coalesce(
                max(error) FILTER (WHERE NOT is_input AND is_tensor), max(error) FILTER (WHERE NOT is_input), 0
            ) AS output_error,
            coalesce(bool_or(difference <> 'noise') FILTER (WHERE is_input AND NOT is_argument), false)
                AS input_differs,
            coalesce(bool_or(difference <> 'noise') FILTER (WHERE NOT is_input), false) AS output_differs,
            coalesce(bool_or(NOT is_input), false) AS output_touched,
            bool_and(only_digest) AS only_digests,
            bool_or(is_other_tensor) AS other_tensors
        FROM blame_leaves
        GROUP BY step, rank, target_seq, if(target_seq IS NULL, golden_seq, NULL)
    ),
    -- apart, because lists take longer than the rest, and few ops have other arguments
    argued AS (
        SELECT step, rank, target_seq, list(row ORDER BY row) AS arguments
        FROM blame_leaves
        WHERE is_input AND is_argument
        GROUP BY ALL
    ),
    seen AS (
        SELECT measured.*, arguments
        FROM measured
        LEFT JOIN argued
            ON argued.step = measured.step
            AND argued.rank = measured.rank
            AND argued.target_seq = measured.target_seq
    ),
    golden_alone AS (
        SELECT * FROM seen WHERE target_seq IS NULL
    ),
    pairs AS (
        SELECT step, rank, min(target_seq) AS target_seq, golden_seq
        FROM results
        SEMI JOIN golden_alone USING (step, rank)
        WHERE comparison = $comparison AND target_seq IS NOT NULL AND golden_seq IS NOT NULL
        GROUP BY ALL
    ),
    placed AS (
        SELECT golden_alone.*, place_after(pairs.target_seq, pairs.golden_seq, golden_alone.golden_seq) AS place
        FROM golden_alone
        ASOF LEFT JOIN pairs
            ON pairs.step = golden_alone.step
            AND pairs.rank = golden_alone.rank
            AND pairs.golden_seq <= golden_alone.golden_seq
        UNION ALL
        SELECT *, target_seq::DOUBLE
        FROM seen
        WHERE target_seq IS NOT NULL
    ),
    -- old dumps record parameter gradients where the module first appears, although its backward computes them
    backwards AS (
        SELECT step, rank, api, max(seq) AS seq
        FROM ops
        WHERE run = $target AND kind = 'module' AND direction = 'backward'
        GROUP BY ALL
    ),
    target_known AS (
        SELECT
            ops.step,
            ops.rank,
            ops.seq,
            op,
            kind,
            parent,
            hash(api_type, ops.api) AS api_key,
            call,
            direction,
            if(direction = 'parameters_grad', backwards.seq + 0.25, NULL) AS made_at
        FROM ops
        LEFT JOIN backwards
            ON ops.direction = 'parameters_grad'
            AND backwards.step = ops.step
            AND backwards.rank = ops.rank
            AND backwards.api = ops.api
        WHERE run = $target
    ),
    golden_known AS (
        SELECT
            units.step,
            units.rank,
            seq,
            op,
            kind,
            parent,
            hash(api_type, api) AS api_key,
            call,
            direction
        FROM ops
        JOIN compared_units AS units ON units.golden_step = ops.step AND units.golden_rank = ops.rank
        WHERE run = $golden AND EXISTS (FROM golden_alone)
    ),
    -- ops that stand out although none of their values differ: an op of golden whose counterpart was paired with another
    -- call of its name, and an op whose input only one run trains, or of whose input more than max and min tells (integers)
    unseen AS (
        SELECT
            standing.step,
            standing.rank,
            place,
            NULL AS target_seq,
            standing.golden_seq,
            'golden' AS side,
            standing.golden_step AS own_step,
            standing.golden_rank AS own_rank
        FROM standing
        SEMI JOIN noise_ends USING (step, rank)
        SEMI JOIN compared_units USING (step, rank)
        ANTI JOIN golden_alone
            ON golden_alone.step = standing.step
            AND golden_alone.rank = standing.rank
            AND golden_alone.golden_seq = standing.golden_seq
        WHERE evidence = 'missing' AND standing.target_seq IS NULL
        UNION ALL
        SELECT standing.step, standing.rank, place, standing.target_seq, standing.golden_seq, 'pair', step, rank
        FROM standing
        SEMI JOIN noise_ends USING (step, rank)
        SEMI JOIN compared_units USING (step, rank)
        ANTI JOIN seen
            ON seen.step = standing.step AND seen.rank = standing.rank AND seen.target_seq = standing.target_seq
        WHERE evidence IN ('argument', 'source')
    )
SELECT
    placed.step,
    placed.rank,
    greatest(placed.place, known.made_at) AS place,
    placed.target_seq,
    placed.golden_seq,
    CASE
        WHEN placed.target_seq IS NULL THEN 'golden'
        WHEN placed.golden_seq IS NULL THEN 'target'
        ELSE 'pair'
    END AS side,
    input_error,
    input_differs,
    output_error,
    output_differs,
    output_touched,
    only_digests,
    other_tensors,
    arguments,
    op,
    kind,
    hash(op) AS op_key,
    hash(parent) AS parent_key,
    coalesce(parent IN ('optimizer', 'clip_grad'), false) AS is_update,
    api_key,
    call,
    direction
FROM placed
JOIN target_known AS known
    ON known.step = placed.step
    AND known.rank = placed.rank
    AND known.seq = placed.target_seq
UNION ALL
SELECT
    placed.step,
    placed.rank,
    placed.place,
    NULL,
    placed.golden_seq,
    'golden',
    input_error,
    input_differs,
    output_error,
    output_differs,
    output_touched,
    only_digests,
    other_tensors,
    arguments,
    op,
    kind,
    hash(op),
    hash(parent),
    coalesce(parent IN ('optimizer', 'clip_grad'), false),
    api_key,
    call,
    direction
FROM placed
JOIN golden_known AS known
    ON placed.target_seq IS NULL
    AND known.step = placed.step
    AND known.rank = placed.rank
    AND known.seq = placed.golden_seq
UNION ALL
SELECT
    unseen.step,
    unseen.rank,
    unseen.place,
    unseen.target_seq,
    unseen.golden_seq,
    unseen.side,
    0,
    false,
    0,
    false,
    false,
    false,
    false,
    NULL,
    ops.op,
    ops.kind,
    hash(ops.op),
    hash(ops.parent),
    coalesce(ops.parent IN ('optimizer', 'clip_grad'), false),
    hash(ops.api_type, ops.api),
    ops.call,
    ops.direction
FROM unseen
JOIN ops
    ON ops.run = if(unseen.side = 'golden', $golden, $target)
    AND ops.step = unseen.own_step
    AND ops.rank = unseen.own_rank
    AND ops.seq = coalesce(unseen.target_seq, unseen.golden_seq)
