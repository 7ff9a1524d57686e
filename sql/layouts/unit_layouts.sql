-- unit_layouts: the table layouts of the merged unit.
-- grain: one leaf, or one op that has no place in the whole
-- parameters: $run; after whole_rows, cut_names, cut_ranks
SELECT *, $run AS merged_from
FROM (
    SELECT
        CAST(whole_row AS INTEGER) AS row,
        whole_op AS op,
        slot,
        repeat,
        layout,
        factor AS scale,
        said_by AS source,
        certainty,
        problem,
        coalesce(reason, unknown, if(has_no_statistics, 'of a partial sum the ranks'' statistics tell the mean only', NULL)) AS reason,
        shard_ranks,
        shard_micros,
        shard_rows,
        carriers
    FROM whole_rows
    UNION ALL BY NAME
    SELECT
        op,
        min(reason) AS reason,
        list(CAST(rank AS BIGINT) ORDER BY rank) AS shard_ranks
    FROM cut_names
    JOIN cut_ranks
        USING (piece)
    WHERE whole IS NULL
    GROUP BY op
)
ORDER BY row NULLS LAST, op, slot, repeat
