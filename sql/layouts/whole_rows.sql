-- whole_rows: the leaves of the merged unit in their order, and those that are left out.
-- grain: one leaf of the whole
-- is_single: it is the tensor of one rank, not put together of several and not what a collective made of it
-- shards: NULL where the ranks' numbers do not show those of the whole
-- parameters: after merged, made_contents, interleaved, carriers, whole_order
WITH
    differing AS (
        SELECT
            leaf,
            list(rank ORDER BY rank, micro) AS ranks,
            list(micro ORDER BY rank, micro) AS micros,
            list(row ORDER BY rank, micro) AS rows
        FROM cut_members
        JOIN decided
            USING (leaf)
        WHERE list_contains(ways, 'differ')
        GROUP BY leaf
    ),
    kept AS (
        SELECT
            merged.* EXCLUDE (max, min, mean, norm, layout, problem, shards, shard_ranks, shard_micros, shard_rows),
            if(merged.unknown IS NULL, merged.shards, NULL) AS shards,
            cut_leaves.whole_op,
            cut_leaves.slot,
            cut_leaves.repeat,
            cut_leaves.role,
            carriers.ranks AS carriers,
            merged.shard_ranks[1] AS first_rank,
            merged.shard_rows[1] AS first_row,
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
            coalesce(made.problem, merged.problem, interleaved.problem) AS problem,
            merged.unknown IS NULL AND merged.shards = 1 AND merged.reduced IS NULL AS is_single,
            merged.is_unknown AND made.content IS NULL AS has_no_statistics,
            whole_order.place
        FROM merged
        JOIN cut_leaves
            USING (leaf)
        JOIN whole_order
            ON whole_order.op = cut_leaves.whole_op
        LEFT JOIN made_contents AS made
            USING (leaf)
        LEFT JOIN interleaved
            USING (leaf)
        LEFT JOIN differing
            USING (leaf)
        LEFT JOIN carriers
            USING (leaf)
    )
SELECT
    *,
    if(
        reason IS NULL,
        row_number() OVER (
            PARTITION BY reason IS NULL
            ORDER BY place, whole_op, if(role = 'input', 0, if(role = 'parameters', 1, 2)), first_row, slot, repeat
        ) - 1,
        NULL
    ) AS whole_row
FROM kept
