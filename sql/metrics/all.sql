-- all: all that is measured of each pair; what a pair has no numbers for is NULL.
-- grain: one pair with both sides
SELECT
    pairing.row,
    s.* EXCLUDE (row),
    t.* EXCLUDE (row)
FROM pairing
LEFT JOIN metrics_statistics AS s ON s.row = pairing.row
LEFT JOIN metrics_tensor AS t ON t.row = pairing.row
WHERE pairing.target_row IS NOT NULL AND pairing.golden_row IS NOT NULL
