-- unit_verdicts: how the comparison of each pair of units ended as a whole.
-- grain: one (step, rank) that is shown
-- parameters: $units (a list of step, rank and verdict)
SELECT unit.step, unit.rank, unit.verdict
FROM (
    SELECT unnest($units::STRUCT(step INTEGER, rank INTEGER, verdict VARCHAR)[]) AS unit
)
