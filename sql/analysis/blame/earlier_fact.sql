-- earlier_fact: whether what stands before the first suspect explains it. Of an op that only moves values, statistics may not
-- show what another argument, wire or source changes, as where it pads the other side or hides elements: then the op that
-- takes its result is the first with a difference, though its inputs seem to agree. What computes shows it, if it matters.
-- grain: one row
-- parameters: $comparison; the view suspects, the table blame_ranked
SELECT
    EXISTS (
        FROM blame_ranked AS first
        JOIN suspects AS earlier
            ON earlier.step = first.step
            AND earlier.rank = first.rank
            AND earlier.place < first.place
        WHERE
            first.nth = 1
            AND first.grade = 'suspect'
            AND first.reason = 'made'
            AND first.incoming_error = 0
            AND earlier.comparison = $comparison
            AND earlier.evidence IN ('argument', 'wiring', 'source')
            AND rounding_of(split_part(earlier.op, '.', 2)) = 'exact'
    ) AS is_explained
