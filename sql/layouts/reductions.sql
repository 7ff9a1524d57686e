-- reductions: the values that an all_reduce adds up, or takes the largest of, over axes of the mesh, and what it gives.
-- grain: one value of a rank, and axes
-- parameters: $run, $step; after transfers, axis_groups
-- Of a value that is added up several times the first result counts.
-- place: rank and row in one number; joined by two columns, all rows of a rank would meet all others of it
WITH
    called AS (
        SELECT
            transfers.rank,
            axis_groups.axes,
            CAST(transfers.rank AS BIGINT) << 32 | transfers.given[1] AS given,
            CAST(transfers.rank AS BIGINT) << 32 | transfers.taken[1] AS taken,
            coalesce(transfers.reduction, 'sum') AS reduction,
            CASE transfers.reduction WHEN 'avg' THEN len(transfers.members) ELSE 1 END AS factor
        FROM transfers
        JOIN axis_groups
            ON list_sort(transfers.members) = axis_groups.members
        WHERE
            transfers.step = $step
            AND transfers.kind = 'all_reduce'
            AND coalesce(transfers.reduction, 'sum') IN ('sum', 'avg', 'max', 'min')
            AND len(transfers.given) = 1
            AND len(transfers.taken) = 1
    ),
    moved AS (
        SELECT
            CAST(rank AS BIGINT) << 32 | row AS place,
            max,
            min,
            mean,
            norm,
            content,
            hash(
                kind,
                dtype,
                shape,
                value,
                coalesce(content, digest, 'statistics'),
                CASE WHEN content IS NULL AND digest IS NULL THEN [max, min, mean, norm] END
            ) AS sig
        FROM tensors
        WHERE run = $run AND step = $step AND op LIKE 'Distributed.%' AND kind = 'tensor'
    )
SELECT DISTINCT ON (called.rank, called.axes, before.sig)
    called.rank,
    called.axes,
    before.sig AS sig,
    after.sig AS gives,
    called.reduction,
    called.factor,
    after.max,
    after.min,
    after.mean,
    after.norm,
    after.content
FROM called
JOIN moved AS before
    ON before.place = called.given
JOIN moved AS after
    ON after.place = called.taken
ORDER BY called.rank, called.axes, before.sig, called.given, called.taken
