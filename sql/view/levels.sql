-- levels: how grave each row of a comparison is, and its error.
-- grain: one row of the comparison
-- parameters: $comparison; the view results, the table leaf_errors
-- level: 0 not compared (grey), 1 equal, 2 noise, 3 different, 4 without counterpart, 5 warning, 6 unreadable, 7 error.
--   What differs only by rounding is noise, whatever its verdict is.
-- error: that of leaf_errors, so 1 is as large as the tensor; 0 where both sides are equal
SELECT
    results.step,
    results.rank,
    results.row,
    results.target_seq,
    results.golden_seq,
    results.role IN ('input', 'parameters') AS is_input,
    CASE
        WHEN results.difference = 'noise' THEN 2
        WHEN verdict = 'error' THEN 7
        WHEN verdict = 'unreadable' THEN 6
        WHEN verdict = 'warning' THEN 5
        WHEN verdict = 'unmatched' THEN 4
        WHEN verdict = 'skipped' OR outcome IN ('unrecorded', 'inside', 'structure', 'recomputed') THEN 0
        WHEN results.difference = 'different' THEN 3
        WHEN results.difference = 'equal' THEN 1
        ELSE 0
    END::TINYINT AS level,
    coalesce(leaf_errors.error, if(results.difference = 'equal', 0, NULL)) AS error
FROM results
LEFT JOIN leaf_errors
    ON leaf_errors.step = results.step
    AND leaf_errors.rank = results.rank
    AND leaf_errors.row = results.row
WHERE comparison = $comparison
