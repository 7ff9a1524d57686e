-- units: which unit of each run is held against which of golden.
-- grain: one pair of units, or a unit of one side without counterpart
-- parameters: $runs, $steps, $ranks, $golden_steps, $golden_ranks: lists of equal length, NULL where a side lacks it
SELECT
    unnest($runs::VARCHAR[]) AS run,
    unnest($steps::INTEGER[]) AS step,
    unnest($ranks::INTEGER[]) AS rank,
    unnest($golden_steps::INTEGER[]) AS golden_step,
    unnest($golden_ranks::INTEGER[]) AS golden_rank
