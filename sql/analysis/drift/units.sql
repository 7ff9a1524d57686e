-- units: the unit of golden for each unit of each run.
-- grain: one pair of units, or a unit of one side without counterpart
-- parameters: $runs, $steps, $ranks, $golden_steps, $golden_ranks: lists of equal length, NULL for a missing side
SELECT
    unnest($runs::VARCHAR[]) AS run,
    unnest($steps::INTEGER[]) AS step,
    unnest($ranks::INTEGER[]) AS rank,
    unnest($golden_steps::INTEGER[]) AS golden_step,
    unnest($golden_ranks::INTEGER[]) AS golden_rank
