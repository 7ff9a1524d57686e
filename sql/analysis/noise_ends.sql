-- noise_ends: the units in which ops round differently, and the place of the first op that stands out of that.
-- grain: one such (step, rank); place is infinite if no op stands out
-- parameters: $units (a list of step, rank, golden_step, golden_rank, is_rounding); the table standing
SELECT unit.step, unit.rank, coalesce(standing.place, 'inf'::DOUBLE) AS place
FROM (
    SELECT unnest($units::STRUCT(step INTEGER, rank INTEGER, golden_step INTEGER, golden_rank INTEGER, is_rounding BOOLEAN)[]) AS unit
)
LEFT JOIN standing ON standing.step = unit.step AND standing.rank = unit.rank AND nth = 1
