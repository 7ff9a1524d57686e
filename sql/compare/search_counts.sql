-- search_counts: how the rows of a comparison with a search ended.
-- grain: one row
-- sure: pairs with equal values or names; likely: pairs by order and shape after a difference
SELECT
    count(p.golden_row) AS golden_rows,
    count(p.target_row) AS target_rows,
    count(*) FILTER (WHERE p.target_row IS NOT NULL AND p.golden_row IS NOT NULL) AS paired,
    count(*) FILTER (WHERE p.matched_by <> 'search') AS mapped,
    count(*) FILTER (WHERE s.confidence >= 0.9) AS sure,
    count(*) FILTER (WHERE s.confidence < 0.9) AS likely,
    count(p.golden_row) FILTER (WHERE v.outcome = 'inside') AS golden_inside,
    count(p.golden_row) FILTER (WHERE v.outcome = 'structure') AS golden_structure,
    count(p.golden_row) FILTER (WHERE v.outcome = 'unmatched') AS golden_left,
    count(p.target_row) FILTER (WHERE v.outcome = 'inside') AS target_inside,
    count(p.target_row) FILTER (WHERE v.outcome = 'structure') AS target_structure,
    count(p.target_row) FILTER (WHERE v.outcome = 'unmatched') AS target_left
FROM pairing AS p
JOIN verdicts AS v ON v.row = p.row
LEFT JOIN search_rows AS s ON s.target_row = p.target_row AND s.golden_row = p.golden_row
