-- default: all metrics of each pair; NULL where a pair lacks the numbers.
-- grain: one pair of the same kind
SELECT
    s.*,
    t.* EXCLUDE (row)
FROM metrics_statistics AS s
LEFT JOIN metrics_tensor AS t ON t.row = s.row
