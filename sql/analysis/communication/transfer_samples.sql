-- transfer_samples: the sampled calls, one of each way.
-- grain: one call
-- parameters: the tables transfer_calls and transfer_ways
SELECT calls.*
FROM transfer_calls AS calls
SEMI JOIN transfer_ways AS ways
    ON ways.step = calls.step
    AND ways.rank = calls.rank
    AND ways.sample = calls.seq
