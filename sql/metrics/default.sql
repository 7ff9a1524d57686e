-- default: all that is measured of each pair; what a pair has no numbers for is NULL.
-- grain: one pair of the same kind
SELECT
    s.*,
    t.* EXCLUDE (row)
FROM metrics_statistics AS s
LEFT JOIN metrics_tensor AS t ON t.row = s.row
