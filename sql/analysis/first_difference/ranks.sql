-- ranks: the first difference of each rank, where it began and what carried it in.
-- grain: one (step, rank) of the comparison; finding is NULL if nothing differs
-- parameters: $run (the target); the view ops, the tables unit_verdicts (those that are shown), standing, noise_ends,
--   leaf_errors, early_gradients, firsts, first_ops, origins, carried, sources and transfers
-- verdict: how this unit ended as a whole; a finding is only about what was compared
-- origin: the rank on which it began (the rank itself if nothing explains it, or if ranks explain each other)
-- explains: the number of other ranks whose difference began here
-- source: how it began, on an origin:
--   this op: its inputs agree, its outputs do not
--   an argument: a value, dtype or shape that was passed differs
--   no recorded op: a tensor input differs, but what was recorded before agrees
--   an op of one run: an input has NaN or inf, and an op without counterpart made that
--   float noise: a tensor input differs, and what was recorded before differs within noise
--   communication: what this rank sent agrees, what it received does not
--   only in target, only in golden
-- communication: whether it precedes the rank's first communication op (before), follows the last (after), or neither
--   (during); NULL on a rank without any
-- evidence, beyond, floor, members: the evidence by which it stands out of rounding noise (schemas/suspects.yaml), by
--   what factor, and what that was measured on; next_op: the next op that stands out; noise_op: an earlier op, the
--   first that differs at all. All NULL where nothing rounds differently
-- absent: ranks from which it received earlier, and which were not dumped
WITH
    talk AS (
        SELECT step, rank, min(seq) AS first_seq, max(seq) AS last_seq FROM transfers GROUP BY ALL
    ),
    strangers AS (
        SELECT transfers.step, transfers.rank, list_sort(list_distinct(flatten(list(absent)))) AS absent
        FROM transfers
        JOIN firsts
            ON firsts.step = transfers.step
            AND firsts.rank = transfers.rank
            AND transfers.seq + 0.25 <= firsts.moment
        WHERE
            len(absent) > 0
            AND takes_in(kind, transfers.rank, peer)
            AND (kind NOT IN ('broadcast', 'scatter') OR list_contains(absent, peer))
        GROUP BY ALL
    ),
    makers AS (
        SELECT step, rank, bool_or(source_difference = 'noise') AS from_noise FROM sources GROUP BY ALL
    ),
    moved AS (
        SELECT DISTINCT step, rank, seq FROM transfers
    ),
    touched AS (
        SELECT step, rank, min(place) AS place, arg_min(target_seq, place) AS seq
        FROM (
            SELECT step, rank, target_seq, coalesce(late_place, target_seq) AS place
            FROM leaf_errors
            SEMI JOIN noise_ends USING (step, rank)
            LEFT JOIN early_gradients USING (step, rank, target_seq)
            WHERE is_tensor AND target_seq IS NOT NULL
        )
        GROUP BY ALL
    ),
    noise_ops AS (
        SELECT touched.step, touched.rank, touched.place, ops.op
        FROM touched
        JOIN ops ON ops.run = $run AND ops.step = touched.step AND ops.rank = touched.rank AND ops.seq = touched.seq
    ),
    reach AS (
        SELECT step, origin AS rank, count(*) - 1 AS explains
        FROM origins
        SEMI JOIN firsts USING (step, rank)
        GROUP BY ALL
    )
SELECT
    units.step,
    units.rank,
    firsts.finding,
    first_ops.op,
    first_ops.golden_op,
    CASE
        WHEN firsts.place < talk.first_seq THEN 'before'
        WHEN firsts.place > talk.last_seq THEN 'after'
        WHEN talk.first_seq IS NOT NULL AND firsts.place IS NOT NULL THEN 'during'
    END AS communication,
    if(firsts.finding IS NULL, NULL, coalesce(origins.origin, units.rank)) AS origin,
    CASE
        WHEN firsts.finding IS NULL OR origins.origin <> units.rank THEN NULL
        WHEN firsts.finding <> 'different' THEN firsts.finding
        WHEN standing.evidence = 'argument' THEN 'an argument'
        WHEN standing.evidence IN ('wiring', 'source') THEN 'no recorded op'
        WHEN is_of_values(standing.evidence) AND moved.seq IS NULL
            THEN if(standing.evidence = 'nonfinite' AND firsts.input_differs, 'an op of one run', 'this op')
        WHEN firsts.tensor_differs AND makers.from_noise THEN 'float noise'
        WHEN firsts.tensor_differs THEN 'no recorded op'
        WHEN firsts.input_differs THEN 'an argument'
        WHEN moved.seq IS NOT NULL THEN 'communication'
        ELSE 'this op'
    END AS source,
    if(source IS NULL, NULL, coalesce(reach.explains, 0)) AS explains,
    carried.giver AS explained_by,
    giver_ops.op AS explained_by_op,
    carried.op AS through,
    carried.meeting,
    strangers.absent,
    firsts.input_error,
    firsts.output_error,
    coalesce(standing.module, first_ops.module) AS module,
    first_ops.code,
    first_ops.first_paired,
    firsts.target_seq,
    firsts.golden_seq,
    standing.evidence,
    standing.error_out / nullif(standing.expected, 0) AS beyond,
    standing.floor,
    standing.members,
    next_standing.op AS next_op,
    noise_ops.op AS noise_op,
    units.verdict
FROM unit_verdicts AS units
LEFT JOIN firsts USING (step, rank)
LEFT JOIN first_ops USING (step, rank)
LEFT JOIN talk USING (step, rank)
LEFT JOIN origins USING (step, rank)
LEFT JOIN carried USING (step, rank)
LEFT JOIN strangers USING (step, rank)
LEFT JOIN makers USING (step, rank)
LEFT JOIN reach USING (step, rank)
LEFT JOIN standing ON standing.step = units.step AND standing.rank = units.rank AND standing.nth = 1
LEFT JOIN standing AS next_standing
    ON next_standing.step = units.step AND next_standing.rank = units.rank AND next_standing.nth = 2
LEFT JOIN noise_ops
    ON noise_ops.step = units.step
    AND noise_ops.rank = units.rank
    AND noise_ops.place < coalesce(firsts.place, 'inf'::DOUBLE)
LEFT JOIN moved ON moved.step = units.step AND moved.rank = units.rank AND moved.seq = firsts.target_seq
LEFT JOIN first_ops AS giver_ops ON giver_ops.step = units.step AND giver_ops.rank = carried.giver
ORDER BY units.step, source IS NULL, explains DESC, if(source IS NULL, NULL, firsts.place), units.rank
