-- parts: what can be checked about each part of a meeting.
-- grain: one part of one meeting by one law
-- parameters: after expected, tensors_moved and takings
-- cut: it consists of pieces of tensors, which only tensor contents show
WITH
    sources AS (
        SELECT
            step,
            meeting,
            law,
            part,
            arg_min(problem, rank) AS problem,
            bool_or(expected.elements IS NOT NULL) AS cut,
            bool_and(content IS NOT NULL) AS has_contents,
            bool_and(high IS NOT NULL) AS has_statistics,
            if(count(*) = 1 AND NOT cut, any_value(digest), NULL) AS digest,
            if(count(*) = 1 AND NOT cut, any_value(content), NULL) AS content
        FROM expected
        LEFT JOIN tensors_moved USING (step, rank, row)
        GROUP BY ALL
    ),
    results AS (
        SELECT
            step,
            rank,
            unnest(rows) AS row,
            seq,
            slot,
            law,
            part
        FROM takings
        WHERE len(rows) > 1
    ),
    -- most results are one tensor, which needs no group
    several AS (
        SELECT
            results.step,
            results.rank,
            seq,
            slot,
            law,
            part,
            bool_and(content IS NOT NULL) AS has_contents,
            bool_and(high IS NOT NULL) AS has_statistics
        FROM results
        LEFT JOIN tensors_moved USING (step, rank, row)
        GROUP BY ALL
    )
SELECT
    takings.* EXCLUDE (problem),
    CASE
        WHEN takings.problem IS NOT NULL THEN takings.problem
        WHEN sources.law IS NULL THEN 'nothing that it could be held against was recorded'
        ELSE sources.problem
    END AS problem,
    coalesce(cut, false) AS cut,
    coalesce(sources.has_contents AND if(len(rows) = 1, alone.content IS NOT NULL, several.has_contents), false)
        AS by_contents,
    coalesce(sources.has_statistics AND if(len(rows) = 1, alone.high IS NOT NULL, several.has_statistics), false)
        AS by_statistics,
    sources.digest = alone.digest AS same_digest,
    sources.content = alone.content AS same_content
FROM takings
LEFT JOIN sources USING (step, meeting, law, part)
LEFT JOIN tensors_moved AS alone
    ON len(takings.rows) = 1
    AND alone.step = takings.step
    AND alone.rank = takings.rank
    AND alone.row = takings.rows[1]
LEFT JOIN several
    ON len(takings.rows) > 1
    AND several.step = takings.step
    AND several.rank = takings.rank
    AND several.seq = takings.seq
    AND several.slot IS NOT DISTINCT FROM takings.slot
    AND several.law = takings.law
    AND several.part = takings.part
