-- left_out: how many rows of the whole, and ops of ranks, were left out, by reason.
-- grain: one reason
-- parameters: after whole_rows, cut_names
SELECT reason, count(*) AS rows
FROM (
    SELECT reason FROM whole_rows WHERE reason IS NOT NULL
    UNION ALL
    SELECT coalesce(unknown, 'of a partial sum the ranks'' statistics tell the mean only') FROM whole_rows WHERE reason IS NULL AND has_no_statistics
    UNION ALL
    SELECT reason FROM cut_names WHERE whole IS NULL
)
GROUP BY reason
ORDER BY rows DESC, reason
