-- noise: the ops that stand out of rounding noise, in units where ops round differently.
-- grain: one op
-- parameters: the tables standing and noise_ends
SELECT standing.*
FROM standing
SEMI JOIN noise_ends USING (step, rank)
