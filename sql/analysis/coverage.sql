-- coverage: how the rows of a comparison were paired.
-- grain: one way of pairing, and finally the unpaired rows
-- parameters: $comparison; the view results
SELECT
    coalesce(matched_by, 'without counterpart') AS paired_by,
    count(DISTINCT (step, rank, target_seq)) FILTER (WHERE target_row IS NOT NULL) AS target_ops,
    count(target_row) AS target_rows,
    count(DISTINCT (step, rank, golden_seq)) FILTER (WHERE golden_row IS NOT NULL) AS golden_ops,
    count(golden_row) AS golden_rows
FROM results
WHERE comparison = $comparison
GROUP BY matched_by
ORDER BY matched_by IS NULL, target_rows DESC, paired_by
