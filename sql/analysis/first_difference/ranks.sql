-- ranks: the first difference of each rank, where it began and what carried it in.
-- grain: one (step, rank) of the comparison; finding is NULL where nothing differs
-- parameters: $comparison, $steps, $ranks (empty: all); the view results, the tables firsts, first_ops, affected,
--   origins, carried, sources and transfers
-- origin: the rank on which it began (the rank itself where nothing explains it, or where ranks explain each other)
-- explains: on how many other ranks the difference of this one is the origin
-- source: how it began, where it did:
--   this op: inputs agree, outputs do not; an argument: a value, dtype or shape that was given differs;
--   no recorded op: a tensor input differs, but what was recorded before agrees; float noise: likewise, but what was
--   recorded before differs within it; communication: what was given agrees, what was taken does not;
--   only in target, only in golden
-- communication: whether it is there before the rank's first communication op, during (up to the last), or after;
--   NULL on a rank without any
-- absent: ranks from which it took before, and which were not dumped
WITH
    units AS (
        SELECT DISTINCT step, rank
        FROM results
        WHERE
            comparison = $comparison
            AND (len($steps::INTEGER[]) = 0 OR list_contains($steps::INTEGER[], step))
            AND (len($ranks::INTEGER[]) = 0 OR list_contains($ranks::INTEGER[], rank))
    ),
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
            AND kind NOT IN ('send', 'barrier')
            AND (kind NOT IN ('reduce', 'gather') OR transfers.rank = peer)
            AND (kind NOT IN ('broadcast', 'scatter') OR list_contains(absent, peer))
        GROUP BY ALL
    ),
    makers AS (
        SELECT step, rank, bool_or(source_difference = 'noise') AS from_noise FROM sources GROUP BY ALL
    ),
    moved AS (
        SELECT DISTINCT step, rank, seq FROM transfers
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
    first_ops.module,
    first_ops.code,
    first_ops.first_paired,
    firsts.target_seq,
    firsts.golden_seq
FROM units
LEFT JOIN firsts USING (step, rank)
LEFT JOIN first_ops USING (step, rank)
LEFT JOIN talk USING (step, rank)
LEFT JOIN affected USING (step, rank)
LEFT JOIN origins USING (step, rank)
LEFT JOIN carried USING (step, rank)
LEFT JOIN strangers USING (step, rank)
LEFT JOIN makers USING (step, rank)
LEFT JOIN reach USING (step, rank)
LEFT JOIN moved ON moved.step = units.step AND moved.rank = units.rank AND moved.seq = firsts.target_seq
LEFT JOIN first_ops AS giver_ops ON giver_ops.step = units.step AND giver_ops.rank = carried.giver
ORDER BY units.step, source IS NULL, explains DESC, if(source IS NULL, NULL, firsts.place), units.rank
