-- other_updates: in which pairs of steps the optimizer moved the parameters of the target otherwise than those of golden.
-- grain: one pair
-- parameters: $units (a list of pair, side, is_later, file, step and rank: the earlier and the later step of both sides; step and
--   rank are NULL of a file that holds one unit only); the variable files (patterns of all of them)
-- Parameters are those of modules; where none was recorded, what ops take, may be trained, and none of them made. A parameter
--   of both runs is the same if it has one name in both; between frameworks, if it had the same extremes and norm in the
--   earlier step, to three digits, and no other of its run had them.
-- Its max and its min have moved since then. Noise of the gradients moves each of them either way, so that the middle of all
--   stays where it is. Another optimizer moves most of them one way: further, or towards zero (docs/noise.md).
WITH
    units AS (
        SELECT *, concat_ws(' ', file, step, rank) AS unit
        FROM (
            SELECT
                unnest(
                    $units::STRUCT(pair INTEGER, side VARCHAR, is_later BOOLEAN, file VARCHAR, step INTEGER, rank INTEGER)[],
                    recursive := true
                )
        )
    ),
    tensors AS (
        SELECT unit, name, role, dtype, max, min, norm, requires_grad
        FROM (
            SELECT NULL::INTEGER AS step, NULL::INTEGER AS rank WHERE false
            UNION ALL BY NAME
            FROM read_parquet(getvariable('files'), hive_partitioning = false, filename = true, union_by_name = true)
        ) AS row_of_file
        JOIN (SELECT DISTINCT unit, file, step, rank FROM units) AS units
            ON units.file = row_of_file.filename
            AND (units.step IS NULL OR (units.step = row_of_file.step AND units.rank = row_of_file.rank))
        WHERE kind = 'tensor' AND op LIKE '%.forward%' AND isfinite(max) AND isfinite(min) AND isfinite(norm)
    ),
    of_modules AS (
        SELECT unit, name, dtype, max, min, norm FROM tensors WHERE role = 'parameters'
    ),
    made AS (
        SELECT unit, max, min, norm FROM tensors ANTI JOIN of_modules USING (unit) WHERE role = 'output'
    ),
    parameters AS (
        FROM of_modules
        UNION ALL
        SELECT unit, name, dtype, max, min, norm
        FROM tensors
        ANTI JOIN of_modules USING (unit)
        ANTI JOIN made USING (unit, max, min, norm)
        WHERE role = 'input' AND requires_grad IS DISTINCT FROM false
    ),
    taken AS (
        SELECT DISTINCT pair, side, is_later, name, dtype, max, min, norm FROM parameters JOIN units USING (unit)
    ),
    moved AS (
        SELECT earlier.*, later.max - earlier.max AS by_max, later.min - earlier.min AS by_min
        FROM taken AS earlier
        JOIN taken AS later USING (pair, side, name)
        WHERE NOT earlier.is_later AND later.is_later
    ),
    shared AS (
        SELECT pair, name FROM moved GROUP BY pair, name HAVING count(DISTINCT side) = 2
    ),
    known AS (
        SELECT moved.*, if(shared.name IS NULL, format('{:.2e} {:.2e} {:.2e}', max, min, norm), name) AS key
        FROM moved
        LEFT JOIN shared USING (pair, name)
        QUALIFY count(DISTINCT (max, min, norm)) OVER (PARTITION BY pair, side, key) = 1
    ),
    -- a module takes a parameter, and so do ops in it
    same AS (
        SELECT DISTINCT
            pair,
            t.max,
            t.min,
            t.by_max AS target_max,
            g.by_max AS golden_max,
            t.by_min AS target_min,
            g.by_min AS golden_min,
            greatest(epsilon_of(t.dtype), epsilon_of(g.dtype)) AS spacing
        FROM known AS t
        JOIN known AS g USING (pair, key)
        WHERE t.side = 'target' AND g.side = 'golden' AND abs(t.norm - g.norm) <= 0.01 * g.norm
    ),
    extremes AS (
        SELECT pair, max AS value, target_max AS target, golden_max AS golden, spacing FROM same
        UNION ALL
        SELECT pair, min, target_min, golden_min, spacing FROM same
    ),
    -- how much further each went, and how much nearer to zero, as a part of the way of both: a quotient of two noisy ways is less
    -- than 1 in the middle, whichever of them is above
    ways AS (
        SELECT
            pair,
            unnest(['further', 'nearer to zero']) AS way,
            unnest([abs(target) - abs(golden), (golden - target) * sign(value)]) / ((abs(target) + abs(golden)) / 2) AS other
        FROM extremes
        WHERE spacing > 0 AND abs(golden) > 16 * spacing * abs(value)
    ),
    middles AS (
        SELECT pair, abs(median(other)) AS middle, 1.4826 * mad(other) AS spread, count(*) AS members
        FROM ways
        GROUP BY pair, way
    )
SELECT pair
FROM middles
GROUP BY pair
-- where ways have little to do with each other, as in chaos, those of one run may all be longer
HAVING bool_or(members >= 8 AND middle > greatest(0.02 + 5 * spread / sqrt(members), spread / 4))
ORDER BY pair
