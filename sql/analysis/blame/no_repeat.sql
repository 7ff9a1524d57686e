-- no_repeat: an empty table in the place of repeat_errors, where no repeat of the golden run is named.
-- grain: none
SELECT NULL::INTEGER AS step, NULL::INTEGER AS rank, NULL::INTEGER AS golden_seq, NULL::DOUBLE AS error
WHERE false
