-- ranked: the events in the order of suspicion.
-- grain: one event
-- parameters: the tables blame_events, blame_elsewhere, blame_races, blame_ops, blame_incoming and blame_meetings
-- grade: suspect, or the reason why it is not one:
--   askew: another op of its kind has the same outputs in golden, so the two were paired with the wrong calls
--   structure: an op of one side, while nothing that both sides have differs
--   race: only digests differ, of a tensor that is changed in place, or without an effect on the output, or the
--     transfer had not ended when it was recorded
--   recording: no number differs, one side only recorded less
--   noise: within the error of the op in a repeat of golden
-- Where ops round differently, an op that stands out of that is a suspect, though noise may hide its effects.
-- is_downstream: a suspect precedes it on its rank, or a tensor that differs arrived from another rank before it, so
--   its difference may come from there, however large it is; where ops round differently, also a transfer that stands
--   out by what a rank with a suspect put in
-- Order: suspects first, and among them those without an earlier event; then arguments and ops of one side, which are
-- facts about the code, before numbers; what came from a rank that is not in the lake last; then by size, and finally
-- by place. Where ops round differently, the order is that of sql/noise/suspects.
WITH
    differing AS (
        SELECT DISTINCT step, rank
        FROM blame_ops
        LEFT JOIN blame_incoming USING (step, rank, target_seq)
        ANTI JOIN blame_elsewhere USING (step, rank, place)
        WHERE side = 'pair' AND (input_differs OR output_differs) AND NOT coalesce(asynchronous, false)
    ),
    graded AS (
        SELECT
            events.*,
            CASE
                WHEN askew.place IS NOT NULL AND standing IS NULL THEN 'askew'
                WHEN standing IS NOT NULL AND is_rounding THEN 'suspect'
                WHEN side <> 'pair' AND differing.rank IS NULL THEN 'structure'
                WHEN races.place IS NOT NULL OR (reason = 'made' AND asynchronous) THEN 'race'
                WHEN only_digests AND NOT output_touched AND NOT is_transfer THEN 'race'
                WHEN
                    reason IN ('made', 'unrecorded', 'taken')
                    AND NOT only_digests
                    AND NOT other_tensors
                    AND greatest(incoming_error, output_error) = 0
                    THEN 'recording'
                WHEN reason = 'made' AND repeat_error > 0 AND output_error <= repeat_error THEN 'noise'
                ELSE 'suspect'
            END AS grade
        FROM blame_events AS events
        LEFT JOIN blame_elsewhere AS askew USING (step, rank, place)
        LEFT JOIN blame_races AS races USING (step, rank, place)
        LEFT JOIN differing USING (step, rank)
    ),
    brought AS (
        SELECT step, rank, min(seq) AS seq FROM blame_meetings WHERE brought_error > 0 GROUP BY ALL
    ),
    first_suspects AS (
        SELECT step, rank, arg_min(place, coalesce(standing, place)) AS place
        FROM graded
        WHERE grade = 'suspect'
        GROUP BY ALL
    ),
    traced AS (
        SELECT
            graded.*,
            coalesce(first_suspects.place < graded.place, false)
            OR coalesce(brought.seq < graded.place, false)
            OR (
                giving.rank IS NOT NULL
                AND standing IS NOT NULL
                AND reason = 'made'
                AND brought_error >= getvariable('carried_share') * output_error
            ) AS is_downstream
        FROM graded
        LEFT JOIN first_suspects USING (step, rank)
        LEFT JOIN first_suspects AS giving ON giving.step = graded.step AND giving.rank = graded.from_rank
        LEFT JOIN brought USING (step, rank)
    )
SELECT
    row_number() OVER (
        ORDER BY
            list_position(['suspect', 'structure', 'askew', 'race', 'recording', 'noise'], grade),
            is_downstream,
            reason = 'absent',
            standing,
            reason NOT IN ('argument', 'only in target', 'only in golden'),
            size DESC,
            place,
            golden_seq,
            rank
    ) AS nth,
    *
FROM traced
