-- rounds: whether errors have to be measured: ops round differently in the two runs, or are of low precision, where a small
--   error is a few spacings.
-- grain: one row
-- parameters: the tables noise_floors and noise_leaves
SELECT
    NOT bool_and(is_bitwise)
    OR (SELECT coalesce(bool_or(is_low_precision(spacing)), false) FROM noise_leaves) AS rounds
FROM noise_floors
