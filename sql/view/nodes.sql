-- nodes: the ops of one (step, rank) as both sides have them, in program order.
-- grain: one pair of ops, an op of one side, or an op that only construct.json or stack.json names
-- parameters: $target, $golden, $step, $rank, $golden_step, $golden_rank; the views ops, undumped and
--   stacks, the table view_ops
-- place: the op's place in the target; an op that only golden has follows the paired op before it, the last one of several
--   that are paired with the same op of golden. No two ops have the same place.
-- level: NULL for an op that the dump does not have
WITH
    judged AS (
        SELECT * FROM view_ops WHERE step = $step AND rank = $rank
    ),
    ours AS (
        SELECT * FROM ops WHERE run = $target AND step = $step AND rank = $rank
    ),
    theirs AS (
        SELECT * FROM ops WHERE run = $golden AND step = $golden_step AND rank = $golden_rank
    ),
    repeated AS (
        SELECT run, stack
        FROM stacks
        WHERE
            is_recomputation(frames)
            AND (
                (run = $target AND step = $step AND rank = $rank)
                OR (run = $golden AND step = $golden_step AND rank = $golden_rank)
            )
    ),
    pairs AS (
        SELECT max(target_seq) AS target_seq, golden_seq
        FROM judged
        WHERE target_seq IS NOT NULL AND golden_seq IS NOT NULL
        GROUP BY golden_seq
    ),
    alone AS (
        SELECT
            theirs.*,
            coalesce(pairs.target_seq, -1) + 0.5
            + 0.25 * (row_number() OVER (PARTITION BY pairs.target_seq ORDER BY theirs.seq) - 1)
            / count(*) OVER (PARTITION BY pairs.target_seq) AS place
        FROM (FROM theirs ANTI JOIN pairs ON pairs.golden_seq = theirs.seq) AS theirs
        ASOF LEFT JOIN pairs ON pairs.golden_seq <= theirs.seq
    ),
    unseen AS (
        SELECT
            undumped.*,
            coalesce(before.seq, -1) + 0.25
            + 0.25 * (row_number() OVER (PARTITION BY before.seq ORDER BY undumped.began, undumped.op) - 1)
            / count(*) OVER (PARTITION BY before.seq) AS place
        FROM (FROM undumped WHERE run = $target AND step = $step AND rank = $rank AND began IS NOT NULL) AS undumped
        ASOF LEFT JOIN (FROM ours WHERE kind <> 'module' AND began IS NOT NULL) AS before
            ON before.began <= undumped.began
    )
SELECT
    ours.seq::DOUBLE AS place,
    ours.seq AS target_seq,
    theirs.seq AS golden_seq,
    ours.op AS target_op,
    theirs.op AS golden_op,
    ours.parent AS target_parent,
    theirs.parent AS golden_parent,
    ours.kind,
    ours.direction,
    ours.api_type,
    ours.api,
    ours.call,
    ours.part,
    ours.micro_step,
    coalesce(ours.is_recompute, ours.stack IN (SELECT stack FROM repeated WHERE run = $target), false) AS is_recompute,
    ours.stack AS target_stack,
    theirs.stack AS golden_stack,
    coalesce(judged.level, 0) AS level,
    judged.error_in,
    judged.error_out
FROM ours
LEFT JOIN judged ON judged.target_seq = ours.seq
LEFT JOIN theirs ON theirs.seq = judged.golden_seq
UNION ALL
SELECT
    alone.place,
    NULL,
    alone.seq,
    NULL,
    alone.op,
    NULL,
    alone.parent,
    alone.kind,
    alone.direction,
    alone.api_type,
    alone.api,
    alone.call,
    alone.part,
    alone.micro_step,
    coalesce(alone.is_recompute, alone.stack IN (SELECT stack FROM repeated WHERE run = $golden), false),
    NULL,
    alone.stack,
    coalesce(judged.level, 4),
    judged.error_in,
    judged.error_out
FROM alone
LEFT JOIN judged ON judged.target_seq IS NULL AND judged.golden_seq = alone.seq
UNION ALL
SELECT
    unseen.place,
    NULL,
    NULL,
    unseen.op,
    NULL,
    unseen.parent,
    NULL,
    if(is_module(unseen.op), 'module', 'api'),
    coalesce(nullif(regexp_extract(unseen.op, '\.(forward|backward)', 1), ''), 'forward'),
    split_part(unseen.op, '.', 1),
    unseen.op,
    NULL,
    unseen.part,
    unseen.micro_step,
    false,
    unseen.stack,
    NULL,
    NULL,
    NULL,
    NULL
FROM unseen
ORDER BY place
