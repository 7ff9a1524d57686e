-- laws: every law of communication, checked for every result of a run.
-- grain: one result by one law, or a whole meeting (rank NULL) if a law checks all results together
-- parameters: after meetings, parts, statistics, readings_measured, law_same_results, law_same_arguments and law_order
-- seen_by: tensors, digests or statistics; NULL if none could decide. error: how far a result is from its expected
-- value, as a share of the largest element that went into it. A broken law of an asynchronous call does not count,
-- because the result may have been recorded before it arrived.
WITH
    shown AS (
        SELECT
            parts.*,
            law_same_results.tied AND law = 'same results' AS tied,
            statistics.is_broken AS statistics_broken,
            readings_measured.is_broken AS tensors_broken,
            readings_measured.problem AS reading_problem,
            CASE
                WHEN by_contents THEN 'tensors'
                WHEN same_digest THEN 'digests'
                WHEN by_statistics THEN 'statistics'
                WHEN same_digest IS NOT NULL THEN 'digests'
            END AS judge,
            coalesce(readings_measured.error, statistics.error) AS error,
            coalesce(readings_measured.expected, statistics.expected) AS expected,
            coalesce(readings_measured.found, statistics.found) AS found
        FROM parts
        LEFT JOIN law_same_results USING (step, meeting, law)
        LEFT JOIN readings_measured
            ON readings_measured.step = parts.step
            AND readings_measured.meeting = parts.meeting
            AND readings_measured.law = parts.law
            AND readings_measured.part = parts.part
            AND readings_measured.rank = parts.rank
            AND readings_measured.seq = parts.seq
            AND readings_measured.slot IS NOT DISTINCT FROM parts.slot
        LEFT JOIN statistics
            ON statistics.step = parts.step
            AND statistics.meeting = parts.meeting
            AND statistics.law = parts.law
            AND statistics.whole = parts.part
            AND statistics.rank = parts.rank
            AND statistics.seq = parts.seq
            AND statistics.slot IS NOT DISTINCT FROM parts.slot
        WHERE NOT cut OR by_contents
    ),
    single AS (
        SELECT
            *,
            CASE
                WHEN problem IS NOT NULL OR reading_problem IS NOT NULL THEN 'cannot tell'
                WHEN judge = 'tensors' THEN if(coalesce(tensors_broken, false), 'broken', 'holds')
                WHEN judge = 'digests' THEN if(same_digest, 'holds', 'broken')
                WHEN judge = 'statistics' AND statistics_broken IS NULL THEN 'cannot tell'
                WHEN judge = 'statistics' AND statistics_broken THEN 'broken'
                WHEN judge = 'statistics' AND same_digest = false THEN 'cannot tell'
                WHEN judge = 'statistics' THEN 'holds'
                ELSE 'cannot tell'
            END AS seems
        FROM shown
    ),
    together AS (
        SELECT
            step,
            meeting,
            law,
            any_value(kind) AS kind,
            arg_min(problem, rank) AS problem,
            bool_or(asynchronous) AS asynchronous,
            bool_and(by_statistics) AS by_statistics
        FROM parts
        WHERE cut AND NOT by_contents
        GROUP BY ALL
    ),
    sizes AS (
        SELECT
            step,
            meeting,
            any_value(size) AS size
        FROM contributors
        GROUP BY ALL
    ),
    combined AS (
        SELECT
            together.*,
            statistics.* EXCLUDE (step, meeting, law, whole, rank, seq, slot, takers),
            if(statistics.takers < size, 'some members have no record of it in the lake', NULL) AS few
        FROM together
        JOIN sizes USING (step, meeting)
        LEFT JOIN statistics
            ON statistics.step = together.step
            AND statistics.meeting = together.meeting
            AND statistics.law = together.law
            AND statistics.whole = -2
    ),
    all_laws AS (
        SELECT
            step,
            meeting,
            kind,
            law,
            if(seems = 'broken' AND tied, NULL, rank) AS rank,
            seq,
            op,
            coalesce(slot, if(part >= 0 AND law = 'concatenation', 'part ' || part, NULL)) AS slot,
            if(seems = 'cannot tell', NULL, judge) AS seen_by,
            if(seems = 'broken' AND asynchronous, 'cannot tell', seems) AS verdict,
            CASE
                WHEN seems = 'broken' AND asynchronous
                THEN 'asynchronous: it may not have been there yet when it was recorded'
                WHEN seems = 'broken' AND tied THEN 'as many members have the one result as the other'
                WHEN seems <> 'cannot tell' THEN NULL
                WHEN coalesce(problem, reading_problem) IS NOT NULL THEN coalesce(problem, reading_problem)
                WHEN judge = 'statistics' AND same_digest = false
                THEN 'the digests differ, the statistics do not: msprobe may have taken a digest late'
                WHEN judge = 'statistics' THEN 'the statistics say nothing of it: NaN, inf, or its reduction'
                ELSE 'neither statistics nor contents of all tensors were recorded'
            END AS reason,
            CASE
                WHEN seems = 'cannot tell' THEN NULL
                WHEN judge = 'digests' THEN if(seems = 'holds', 0, 1)
                ELSE coalesce(error, 0)
            END AS error,
            if(seems = 'broken', expected, NULL) AS expected,
            if(seems = 'broken', found, NULL) AS found
        FROM single
        UNION ALL BY NAME
        SELECT
            step,
            meeting,
            kind,
            law,
            NULL AS rank,
            if(coalesce(problem, few) IS NULL AND is_broken IS NOT NULL, 'statistics', NULL) AS seen_by,
            CASE
                WHEN coalesce(problem, few) IS NOT NULL OR is_broken IS NULL THEN 'cannot tell'
                WHEN is_broken AND asynchronous THEN 'cannot tell'
                WHEN is_broken THEN 'broken'
                ELSE 'holds'
            END AS verdict,
            CASE
                WHEN coalesce(problem, few) IS NOT NULL THEN coalesce(problem, few)
                WHEN is_broken IS NULL AND by_statistics
                THEN 'the statistics say nothing of it: NaN, inf, or its reduction'
                WHEN is_broken IS NULL
                THEN 'only the contents distinguish pieces of tensors, and they were not dumped'
                WHEN is_broken AND asynchronous THEN 'asynchronous: it may not have been there yet when it was recorded'
                WHEN is_broken THEN 'statistics show all results together, not the one at fault'
            END AS reason,
            if(coalesce(problem, few) IS NULL, error, NULL) AS error,
            if(is_broken AND coalesce(problem, few) IS NULL, expected, NULL) AS expected,
            if(is_broken AND coalesce(problem, few) IS NULL, found, NULL) AS found
        FROM combined
        UNION ALL BY NAME
        FROM law_same_arguments
    )
SELECT
    all_laws.* REPLACE (meetings.meeting AS meeting)
FROM all_laws
JOIN meetings ON meetings.number = all_laws.meeting
UNION ALL BY NAME
FROM law_order
