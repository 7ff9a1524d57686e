-- pairs_at_once: the pairs of units that are compared at once.
-- grain: one pair
-- parameters: $1 to $12 (lists in the order of the pairs)
-- target_step, target_rank, …: of a unit in a compacted folder; else NULL
-- step, rank: of the target. The columns from is_equal on are set when they are known.
CREATE TEMP TABLE pairs_at_once AS
SELECT
    unnest($1::INTEGER []) AS pair,
    unnest($2::VARCHAR []) AS target_folder,
    unnest($3::INTEGER []) AS target_step,
    unnest($4::INTEGER []) AS target_rank,
    unnest($5::VARCHAR []) AS golden_folder,
    unnest($6::INTEGER []) AS golden_step,
    unnest($7::INTEGER []) AS golden_rank,
    unnest($8::INTEGER []) AS step,
    unnest($9::INTEGER []) AS rank,
    unnest($10::BOOLEAN []) AS is_first,
    unnest($11::BOOLEAN []) AS is_after_equal,
    unnest($12::BOOLEAN []) AS is_after_other_update,
    is_first AS is_first_recorded,
    NULL::BOOLEAN AS is_equal,
    NULL::BOOLEAN AS is_first_step,
    NULL::BOOLEAN AS rounds,
    NULL::BOOLEAN AS is_rounding,
    NULL::DOUBLE AS noise_ends,
    NULL::DOUBLE AS noise_error
