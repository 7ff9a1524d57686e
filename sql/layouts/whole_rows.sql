-- whole_rows: the leaves of the merged unit in their order, and those that are left out.
-- grain: one leaf of the whole
-- parameters: after merged, made_contents, whole_order
WITH
differing AS (
    SELECT
        whole_op,
        slot,
        repeat,
        list(rank ORDER BY rank, micro) AS ranks,
        list(micro ORDER BY rank, micro) AS micros,
        list(row ORDER BY rank, micro) AS rows
    FROM resolved
    WHERE list_contains(ways, 'differ')
    GROUP BY whole_op, slot, repeat
),
kept AS (
    SELECT
        merged.* EXCLUDE (
            contents, max, min, mean, norm, layout, problem, reason, shard_ranks, shard_micros, shard_rows
        ),
        coalesce(differing.ranks, merged.shard_ranks) AS shard_ranks,
        coalesce(differing.micros, merged.shard_micros) AS shard_micros,
        coalesce(differing.rows, merged.shard_rows) AS shard_rows,
        coalesce(made.max, merged.max) AS max,
        coalesce(made.min, merged.min) AS min,
        coalesce(made.mean, merged.mean) AS mean,
        coalesce(made.norm, merged.norm) AS norm,
        made.content,
        made.shape AS made_shape,
        nullif(concat_ws('; ', if(made.layout LIKE '%shard%', NULL, merged.layout), made.layout), '') AS layout,
        coalesce(made.problem, merged.problem) AS problem,
        CASE
            WHEN merged.reason IS NOT NULL THEN merged.reason
        END AS reason,
        merged.is_unknown AND made.content IS NULL AS has_no_statistics,
        whole_order.place
    FROM merged
    JOIN whole_order
        ON whole_order.op = merged.whole_op
    LEFT JOIN made_contents AS made
        USING (whole_op, slot, repeat)
    LEFT JOIN differing
        USING (whole_op, slot, repeat)
),
source AS (
    SELECT kept.*, members.role
    FROM kept
    JOIN cut_members AS members
        ON members.rank = kept.first_rank AND members.row = kept.first_row
)
SELECT
    *,
    if(
        reason IS NULL,
        row_number() OVER (
            PARTITION BY reason IS NULL
            ORDER BY place, if(role = 'input', 0, if(role = 'parameters', 1, 2)), first_row, whole_op, slot, repeat
        ) - 1,
        NULL
    ) AS whole_row
FROM source
