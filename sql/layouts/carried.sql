-- carried: the shards of the row of an op that differs most, with what is needed to hold each against golden.
-- grain: one shard
-- parameters: $comparison, $op, $step, $target, $golden, $golden_step, $golden_rank
-- carriers: the ranks that carry the difference, as far as the ranks' own numbers show
-- distance: of shards with the shape of the whole, how far the statistics are from golden's, relative to golden; infinite
--   where only one of them is NaN
WITH
    row_of_op AS (
        SELECT *
        FROM results
        WHERE comparison = $comparison AND step = $step AND target_op = $op AND target_kind = 'tensor'
        ORDER BY
            target_row IN (
                SELECT row
                FROM layouts
                WHERE run = $target AND step = $step AND op = $op AND problem LIKE '%interleaved differently%'
            ) DESC,
            (difference = 'different') DESC,
            target_row
        LIMIT 1
    ),
    shards AS (
        SELECT
            layouts.slot,
            layouts.layout,
            layouts.problem,
            layouts.scale,
            coalesce(layouts.scale, 1) AS factor,
            layouts.merged_from,
            layouts.carriers,
            unnest(layouts.shard_ranks) AS rank,
            unnest(layouts.shard_micros) AS micro,
            unnest(layouts.shard_rows) AS row
        FROM layouts
        JOIN row_of_op
            ON layouts.row = row_of_op.target_row
        WHERE layouts.run = $target AND layouts.step = $step
    ),
    theirs AS (
        SELECT tensors.*, found.reference
        FROM tensors
        JOIN row_of_op
            ON tensors.row = row_of_op.golden_row
        LEFT JOIN tensor_references AS found
            ON found.run = $golden
            AND found.step = $golden_step
            AND found.rank = $golden_rank
            AND found.content = tensors.content
        WHERE tensors.run = $golden AND tensors.step = $golden_step AND tensors.rank = $golden_rank
    ),
    measured AS (
        SELECT
            shards.slot,
            shards.layout,
            shards.problem,
            shards.scale,
            shards.rank,
            shards.micro,
            ours.shape,
            theirs.shape AS whole,
            lying.reference AS ours,
            theirs.reference AS theirs,
            CASE
                WHEN ours.shape = theirs.shape AND coalesce(shards.layout, '') NOT LIKE '%partial%'
                    THEN greatest(
                        relative_of(abs(difference_of(ours.norm * factor, theirs.norm)), theirs.norm),
                        relative_of(abs(difference_of(ours.max * factor, theirs.max)), magnitude_of(theirs.max, theirs.min)),
                        relative_of(abs(difference_of(ours.min * factor, theirs.min)), magnitude_of(theirs.max, theirs.min))
                    )
            END AS distance,
            shards.carriers
        FROM shards
        JOIN tensors AS ours
            ON ours.run = shards.merged_from AND ours.step = $step AND ours.rank = shards.rank AND ours.row = shards.row
        LEFT JOIN tensor_references AS lying
            ON lying.run = shards.merged_from
            AND lying.step = $step
            AND lying.rank = shards.rank
            AND lying.content = ours.content
        CROSS JOIN theirs
    )
SELECT * REPLACE (if(isnan(distance), 'inf'::DOUBLE, distance) AS distance)
FROM measured
ORDER BY rank, micro
