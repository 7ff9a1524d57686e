-- leaves: what the ranks have of each leaf of the whole, and golden.
-- grain: one leaf of the whole
-- parameters: after cut_members, golden_leaves, reductions
-- reduced: the axes over which every rank's value is added up by a collective; value: which value this is on all ranks
WITH
    found AS (
        SELECT
            members.whole_op,
            members.slot,
            members.repeat,
            members.rank,
            members.micro,
            members.sig,
            list_distinct(flatten(list(reductions.axes) FILTER (reductions.axes IS NOT NULL))) AS axes
        FROM cut_members AS members
        LEFT JOIN reductions
            ON reductions.rank = members.rank AND reductions.sig = members.sig
        WHERE members.kind = 'tensor'
        GROUP BY ALL
    ),
    reduced AS (
        SELECT
            whole_op,
            slot,
            repeat,
            list_reduce(list(coalesce(axes, [])), lambda ours, theirs: list_intersect(ours, theirs)) AS axes
        FROM found
        GROUP BY ALL
    ),
    counted AS (
        SELECT
            whole_op,
            slot,
            repeat,
            arg_min(role, (rank, micro)) AS role,
            arg_min(kind, (rank, micro)) AS kind,
            CASE
                WHEN whole_op LIKE '%.parameters_grad%' THEN 'parameters_grad'
                WHEN whole_op LIKE '%.backward%' THEN 'backward'
                ELSE 'forward'
            END AS direction,
            arg_min(shape, (rank, micro)) AS shape,
            count(DISTINCT shape) AS shapes,
            CAST(bit_xor(hash(rank, micro, sig)) >> 1 AS BIGINT) AS value,
            arg_min(members.value, (rank, micro)) AS number,
            arg_min(extra, (rank, micro)) AS extra,
            coalesce(bool_and(max = min), false) OR bool_or(lower(dtype) LIKE '%bool%') AS is_constant
        FROM cut_members AS members
        GROUP BY ALL
    )
SELECT
    counted.whole_op,
    counted.slot,
    counted.repeat,
    counted.role,
    counted.kind,
    counted.direction,
    counted.shape,
    counted.shapes,
    golden.shape AS whole,
    reduced.axes AS reduced,
    counted.value,
    counted.number,
    golden.value AS golden_number,
    counted.extra,
    counted.is_constant
FROM counted
LEFT JOIN golden_leaves AS golden
    USING (whole_op, slot, repeat)
LEFT JOIN reduced
    USING (whole_op, slot, repeat)
