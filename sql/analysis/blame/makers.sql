-- makers: the earlier op that made the value of an unexplained input, in either run.
-- grain: one unexplained input leaf
-- parameters: $comparison, $target, $golden; the views tensors and results, the tables blame_unexplained,
--   blame_leaves and compared_units
-- golden_maker, target_maker: the latest earlier op with that value among its outputs (norm within a ten-thousandth)
-- maker_differs: the op that made it in golden has an output that differs, or no counterpart, so the input's difference
--   may come from there; noise there does not explain an error a thousand times as large here
WITH
    -- this excludes most tensors before their other columns are read
    maxima AS (
        SELECT golden_max AS max FROM blame_unexplained
        UNION
        SELECT target_max FROM blame_unexplained
    ),
    made AS (
        SELECT
            tensors.run = $golden AS is_golden,
            units.step,
            units.rank,
            tensors.seq,
            norm,
            extremes_key(max, min, digest) AS key
        FROM tensors
        JOIN compared_units AS units
            ON tensors.run = $golden AND units.golden_step = tensors.step AND units.golden_rank = tensors.rank
        WHERE
            role NOT IN ('input', 'parameters')
            AND kind = 'tensor'
            AND run = $golden
            AND (max IN (FROM maxima) OR max IS NULL)
        UNION ALL
        SELECT
            false,
            step,
            rank,
            seq,
            norm,
            extremes_key(max, min, digest)
        FROM tensors
        WHERE
            role NOT IN ('input', 'parameters')
            AND kind = 'tensor'
            AND run = $target
            AND (max IN (FROM maxima) OR max IS NULL)
    ),
    golden_makers AS (
        SELECT u.step, u.rank, u.row, max(made.seq) AS seq
        FROM blame_unexplained AS u
        JOIN made
            ON is_golden
            AND made.step = u.step
            AND made.rank = u.rank
            AND made.key = u.golden_key
            AND made.seq < u.golden_seq
        WHERE golden_tells AND (norm IS NULL OR golden_norm IS NULL OR abs(norm - golden_norm) <= getvariable('same_norm') * golden_norm)
        GROUP BY ALL
    ),
    target_makers AS (
        SELECT u.step, u.rank, u.row, max(made.seq) AS seq
        FROM blame_unexplained AS u
        JOIN made
            ON NOT is_golden
            AND made.step = u.step
            AND made.rank = u.rank
            AND made.key = u.target_key
            AND made.seq < u.target_seq
        WHERE target_tells AND (norm IS NULL OR target_norm IS NULL OR abs(norm - target_norm) <= getvariable('same_norm') * target_norm)
        GROUP BY ALL
    ),
    differing AS (
        SELECT step, rank, golden_seq AS seq, bool_or(difference <> 'noise') AS is_beyond_noise, max(error) AS error
        FROM blame_leaves
        WHERE NOT is_input AND golden_seq IS NOT NULL
        GROUP BY step, rank, golden_seq
    ),
    paired AS (
        SELECT DISTINCT golden_makers.step, golden_makers.rank, golden_makers.seq
        FROM golden_makers
        JOIN results
            ON results.step = golden_makers.step
            AND results.rank = golden_makers.rank
            AND results.golden_seq = golden_makers.seq
        WHERE comparison = $comparison AND target_seq IS NOT NULL
    )
SELECT
    u.step,
    u.rank,
    u.row,
    u.target_seq,
    u.golden_seq,
    u.error,
    golden_makers.seq AS golden_maker,
    target_makers.seq AS target_maker,
    golden_makers.seq IS NOT NULL
    AND (
        coalesce(differing.is_beyond_noise OR differing.error * 1000 > u.error, false)
        OR paired.seq IS NULL
    ) AS maker_differs
FROM blame_unexplained AS u
LEFT JOIN golden_makers USING (step, rank, row)
LEFT JOIN target_makers USING (step, rank, row)
LEFT JOIN differing
    ON differing.step = u.step
    AND differing.rank = u.rank
    AND differing.seq = golden_makers.seq
LEFT JOIN paired
    ON paired.step = u.step
    AND paired.rank = u.rank
    AND paired.seq = golden_makers.seq
