-- unmatched: the ops with rows without counterpart, each with the most similar ops of the other side.
-- grain: one op and one candidate, best first; an op without candidate has one row
-- Dumps without values have no rows; of these, an op of a name that the other side does not give stands here.
-- parameters: $comparison, $target, $golden (runs), $most (ops of each side, step and rank that are listed), $units (those
--   without values, a list of step, rank, golden_step, golden_rank); the views results, ops and undumped
-- likeness: half the similarity of the names (Jaro-Winkler, without call numbers and frameworks' prefixes), three
--   tenths for equal shapes, two tenths for the place among the ops of its side; a candidate has at least 0.6
WITH
    units AS (
        SELECT unnest($units::STRUCT(step INTEGER, rank INTEGER, golden_step INTEGER, golden_rank INTEGER)[], recursive := true)
    ),
    named AS (
        SELECT run, step, rank, began, NULL AS seq, op FROM undumped
        UNION ALL
        SELECT run, step, rank, began, seq, op FROM ops
    ),
    names AS (
        SELECT units.step, units.rank, 'target' AS side, began, seq, op
        FROM units
        JOIN named
            ON named.step = units.step AND named.rank = units.rank
        WHERE run = $target
        UNION ALL
        SELECT units.step, units.rank, 'golden' AS side, began, seq, op
        FROM units
        JOIN named
            ON named.step = golden_step AND named.rank = golden_rank
        WHERE run = $golden
    ),
    sides AS (
        SELECT step, rank, 'target' AS side, target_seq AS seq, target_op AS op, target_shape AS shape, outcome, row
        FROM results
        WHERE comparison = $comparison AND target_row IS NOT NULL
        UNION ALL
        SELECT step, rank, 'golden' AS side, golden_seq AS seq, golden_op AS op, golden_shape AS shape, outcome, row
        FROM results
        WHERE comparison = $comparison AND golden_row IS NOT NULL
        UNION ALL
        SELECT
            step,
            rank,
            side,
            row_number() OVER (PARTITION BY step, rank, side ORDER BY began, seq, op) - 1 AS seq,
            op,
            NULL AS shape,
            if(count(*) OVER (PARTITION BY step, rank, op) = 1, 'unmatched', 'structure') AS outcome,
            0 AS row
        FROM names
    ),
    found AS (
        SELECT
            step,
            rank,
            side,
            seq,
            any_value(op) AS op,
            count(*) FILTER (WHERE outcome = 'unmatched') AS rows,
            rows > 0 AS is_alone,
            list(shape ORDER BY row) FILTER (WHERE shape IS NOT NULL) AS shapes
        FROM sides
        GROUP BY ALL
    ),
    alone AS (
        SELECT
            * EXCLUDE (is_alone),
            seq / greatest(max(seq) OVER (PARTITION BY step, rank, side), 1) AS place,
            regexp_extract(op, '\.(forward|backward|parameters_grad)(\.\d+)?$', 1) AS direction,
            regexp_replace(regexp_replace(op, '^\w+\.', ''), '\.\d+(\.(forward|backward))?$', '') AS bare
        FROM found
        QUALIFY is_alone
    ),
    listed AS (
        FROM alone
        QUALIFY row_number() OVER (PARTITION BY step, rank, side ORDER BY seq) <= $most
    ),
    candidates AS (
        SELECT
            listed.step,
            listed.rank,
            listed.side,
            listed.seq,
            other.op AS candidate,
            other.seq AS candidate_seq,
            0.5 * jaro_winkler_similarity(listed.bare, other.bare)
            + 0.3 * (listed.shapes IS NOT DISTINCT FROM other.shapes)::DOUBLE
            + 0.2 * (1 - abs(listed.place - other.place)) AS likeness
        FROM listed
        JOIN alone AS other
            ON other.step = listed.step
            AND other.rank = listed.rank
            AND other.side <> listed.side
            AND other.direction = listed.direction
        WHERE likeness >= 0.6
        QUALIFY
            row_number() OVER (PARTITION BY listed.step, listed.rank, listed.side, listed.seq ORDER BY likeness DESC, other.seq) <= 3
    )
SELECT
    listed.step,
    listed.rank,
    listed.side,
    listed.op,
    listed.rows,
    candidate,
    round(likeness, 2) AS likeness
FROM listed
LEFT JOIN candidates USING (step, rank, side, seq)
ORDER BY listed.step, listed.rank, listed.side DESC, listed.seq, candidates.likeness DESC, candidate_seq
