-- transfer_samples: the calls that are read, one of each way.
-- grain: one call
-- parameters: the tables transfer_calls and transfer_ways
SELECT calls.*
FROM transfer_calls AS calls
SEMI JOIN transfer_ways AS sampled ON sampled.step = calls.step AND sampled.rank = calls.rank AND sampled.sample = calls.seq
