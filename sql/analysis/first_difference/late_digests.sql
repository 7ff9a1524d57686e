-- late_digests: leaves whose digests differ only because one side's was taken after the op had gone on.
-- grain: one leaf of leaf_errors
-- parameters: $comparison; the view results, the table leaf_errors
-- msprobe works out CRC-32 in a thread, statistics at once. So where an op works in place, a digest may be that of
--   later contents. It is for certain where the statistics of both sides agree and one side's digest is that of another
--   leaf of its rank with other statistics: the same contents cannot have two norms. Or where the norms are 0.
WITH
    told AS (
        SELECT
            step,
            rank,
            row,
            target_digest,
            golden_digest,
            target_shape,
            golden_shape,
            target_max,
            target_min,
            target_mean,
            target_norm,
            golden_max,
            golden_min,
            golden_mean,
            golden_norm
        FROM results
        WHERE comparison = $comparison AND (target_digest IS NOT NULL OR golden_digest IS NOT NULL)
    ),
    suspects AS (
        SELECT told.*
        FROM told
        SEMI JOIN leaf_errors USING (step, rank, row)
        WHERE
            target_digest <> golden_digest
            AND target_shape = golden_shape
            AND target_norm = golden_norm
            AND (target_max, target_min, target_mean) IS NOT DISTINCT FROM (golden_max, golden_min, golden_mean)
    )
SELECT step, rank, row
FROM suspects
WHERE target_norm = 0
UNION
SELECT step, rank, row
FROM suspects
WHERE EXISTS (
    FROM told
    WHERE
        told.step = suspects.step
        AND told.rank = suspects.rank
        AND told.target_digest = suspects.target_digest
        AND told.target_shape = suspects.target_shape
        AND (told.target_max, told.target_min, told.target_mean, told.target_norm)
            IS DISTINCT FROM (suspects.target_max, suspects.target_min, suspects.target_mean, suspects.target_norm)
)
UNION
SELECT step, rank, row
FROM suspects
WHERE EXISTS (
    FROM told
    WHERE
        told.step = suspects.step
        AND told.rank = suspects.rank
        AND told.golden_digest = suspects.golden_digest
        AND told.golden_shape = suspects.golden_shape
        AND (told.golden_max, told.golden_min, told.golden_mean, told.golden_norm)
            IS DISTINCT FROM (suspects.golden_max, suspects.golden_min, suspects.golden_mean, suspects.golden_norm)
)
