-- leaves: what the ranks have of each leaf of the whole, and golden.
-- grain: one leaf of the whole
-- parameters: after members, leaf_axes, golden_leaves, reductions
-- totals: where ranks have other extents, the sum of each over all members
-- equal, present, ragged: by axis; see leaf_axes
-- reduced: the axes over which every rank's value is added up by a collective; value: which value this is on all ranks
-- hash(rank, micro, sig) would not do: it is linear in its arguments, so that equal values of two ranks cancel out
WITH
    counted AS (
        SELECT
            leaf,
            count(*) AS members,
            max(micro) AS last_micro,
            arg_min_null(shape, CAST(rank AS BIGINT) << 32 | micro) AS shape,
            count(DISTINCT shape) AS shapes,
            count(DISTINCT sig) AS values,
            CAST(bit_xor(hash(xor(sig, CAST(rank AS UBIGINT) << 16 | micro))) >> 1 AS BIGINT) AS value,
            coalesce(bool_and(max = min), false) AS is_constant
        FROM cut_members
        GROUP BY leaf
    ),
    uneven AS (
        SELECT leaf, list(total ORDER BY dimension) AS totals
        FROM (
            SELECT leaf, dimension, CAST(sum(shape[dimension]) AS BIGINT) AS total
            FROM cut_members, unnest(range(1, len(shape) + 1)) AS along_shape (dimension)
            WHERE leaf IN (SELECT leaf FROM counted WHERE shapes > 1)
            GROUP BY leaf, dimension
        )
        GROUP BY leaf
    ),
    added AS (
        SELECT members.leaf, members.rank, members.micro, reductions.reduction, unnest(reductions.axes) AS axis
        FROM cut_members AS members
        JOIN reductions
            ON reductions.rank = members.rank AND reductions.sig = members.sig
    ),
    -- the gradient of a parameter grows over the micro-batches, and is added up after the last one
    wanted AS (
        SELECT leaf, count(*) AS members
        FROM cut_members AS members
        JOIN counted
            USING (leaf)
        JOIN cut_leaves
            USING (leaf)
        WHERE members.micro = counted.last_micro OR cut_leaves.whole_op NOT LIKE '%.parameters_grad%'
        GROUP BY leaf
    ),
    reduced AS (
        SELECT leaf, list(axis ORDER BY axis) AS axes, min(reduction) AS reduction
        FROM (
            SELECT leaf, axis, min(reduction) AS reduction, count(DISTINCT CAST(rank AS BIGINT) << 16 | micro) AS added_members
            FROM added
            GROUP BY leaf, axis
        )
        JOIN wanted
            USING (leaf)
        WHERE added_members >= wanted.members
        GROUP BY leaf
    ),
    by_axis AS (
        SELECT
            leaf,
            list(equal ORDER BY axis) AS equal,
            list(present ORDER BY axis) AS present,
            list(ragged ORDER BY axis) AS ragged
        FROM leaf_axes
        GROUP BY leaf
    )
SELECT
    leaf AS id,
    cut_leaves.whole_op AS op,
    cut_leaves.slot,
    cut_leaves.repeat,
    cut_leaves.role,
    cut_leaves.kind,
    CASE
        WHEN whole_op LIKE '%.parameters_grad%' THEN 'parameters_grad'
        WHEN whole_op LIKE '%.backward%' THEN 'backward'
        ELSE 'forward'
    END AS direction,
    counted.shape,
    counted.members,
    uneven.totals,
    counted.values,
    golden.shape AS whole,
    coalesce(by_axis.equal, []) AS equal,
    coalesce(by_axis.present, []) AS present,
    coalesce(if(cut_leaves.kind = 'tensor', reduced.axes, NULL), []) AS reduced,
    counted.value,
    cut_leaves.number,
    golden.value AS golden_number,
    cut_leaves.extra AS record,
    coalesce(counted.is_constant OR cut_leaves.is_bool OR cut_leaves.is_unknown, false) AS is_constant,
    cut_leaves.is_unknown,
    coalesce(by_axis.ragged, []) AS ragged,
    reduced.reduction,
    cut_leaves.is_whole
FROM cut_leaves
JOIN counted
    USING (leaf)
LEFT JOIN by_axis
    USING (leaf)
LEFT JOIN golden_leaves AS golden
    USING (leaf)
LEFT JOIN reduced
    USING (leaf)
LEFT JOIN uneven
    USING (leaf)
ORDER BY leaf
