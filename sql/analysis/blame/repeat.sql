-- repeat: how far the ops of golden differ from themselves in a repeat of the same run.
-- grain: one op of golden whose output is not equal in the repeat
-- parameters: $is_golden (golden is the golden side of the repeat's comparison, else its target); the tables
--   leaf_errors, of that comparison, and compared_units
SELECT
    units.step,
    units.rank,
    if($is_golden, leaf_errors.golden_seq, leaf_errors.target_seq) AS golden_seq,
    max(error) AS error
FROM leaf_errors
JOIN compared_units AS units
    ON units.golden_step = leaf_errors.step
    AND units.golden_rank = leaf_errors.rank
WHERE role NOT IN ('input', 'parameters') AND isfinite(error)
GROUP BY ALL
HAVING golden_seq IS NOT NULL
