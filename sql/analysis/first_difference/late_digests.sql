-- late_digests: leaves whose digests differ only because one side's was computed after the op had gone on.
-- grain: one leaf of leaf_errors
-- parameters: $comparison; the view results, the table leaf_errors
-- msprobe computes CRC-32 in a thread, but statistics at once, so the digest of a tensor that an op changes in place
-- may be that of later contents. This is certain if the statistics of both sides agree and one side's digest is that of
-- another leaf of its rank with other statistics, because the same contents cannot have two norms. It is also certain
-- if the norms are 0.
WITH
    changed AS (
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
        SELECT changed.*
        FROM changed
        SEMI JOIN leaf_errors USING (step, rank, row)
        WHERE
            other_digest(target_digest, golden_digest)
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
    FROM changed
    WHERE
        changed.step = suspects.step
        AND changed.rank = suspects.rank
        AND changed.target_digest = suspects.target_digest
        AND changed.target_shape = suspects.target_shape
        AND changed.target_norm IS NOT NULL
        AND (changed.target_max, changed.target_min, changed.target_mean, changed.target_norm)
            IS DISTINCT FROM (suspects.target_max, suspects.target_min, suspects.target_mean, suspects.target_norm)
)
UNION
SELECT step, rank, row
FROM suspects
WHERE EXISTS (
    FROM changed
    WHERE
        changed.step = suspects.step
        AND changed.rank = suspects.rank
        AND changed.golden_digest = suspects.golden_digest
        AND changed.golden_shape = suspects.golden_shape
        AND changed.golden_norm IS NOT NULL
        AND (changed.golden_max, changed.golden_min, changed.golden_mean, changed.golden_norm)
            IS DISTINCT FROM (suspects.golden_max, suspects.golden_min, suspects.golden_mean, suspects.golden_norm)
)
