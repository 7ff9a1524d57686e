-- no_repeat: an empty table in place of repeat_errors, if no repeat of the golden run is given.
-- grain: none
SELECT NULL::INTEGER AS step, NULL::INTEGER AS rank, NULL::INTEGER AS golden_seq, NULL::DOUBLE AS error
WHERE false
