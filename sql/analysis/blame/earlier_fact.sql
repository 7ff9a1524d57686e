-- earlier_fact: whether what stands before the first suspect explains it. Of an op that only moves values, statistics may not
-- show what another argument, wire or source changes, as where it pads the other side or hides elements: then the op that
-- takes its result is the first with a difference, though its inputs seem to agree. What computes shows it, if it matters.
-- grain: one row
-- parameters: $comparison, $target; the views suspects and ops, the table blame_ranked
SELECT
    EXISTS (
        FROM blame_ranked AS first
        JOIN suspects AS earlier
            ON earlier.step = first.step
            AND earlier.rank = first.rank
            AND earlier.place < first.place
        JOIN ops
            ON ops.run = $target
            AND ops.step = earlier.step
            AND ops.rank = earlier.rank
            AND ops.seq = earlier.target_seq
            AND rounding_of(ops.api) = 'exact'
        WHERE
            first.nth = 1
            AND first.grade = 'suspect'
            AND first.reason = 'made'
            AND first.incoming_error = 0
            AND earlier.comparison = $comparison
            AND earlier.evidence IN ('argument', 'wiring', 'source')
    ) AS is_explained
