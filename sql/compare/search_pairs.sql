-- search_pairs: how a search ended for each row of the comparison, as the lake stores it (schemas/pairs.yaml).
-- grain: one row of the comparison
SELECT
    p.row,
    p.target_row,
    p.golden_row,
    row_name(t.op, target_slot) AS target_name,
    row_name(g.op, golden_slot) AS golden_name,
    p.matched_by,
    search_rows.confidence,
    coalesce(search_rows.reason || coalesce(', ' || search_layouts.note, ''), left_over.outcome || ': ' || left_over.reason) AS reason
FROM paired AS p
LEFT JOIN target_ops AS t ON t.seq = p.target_seq
LEFT JOIN golden_ops AS g ON g.seq = p.golden_seq
LEFT JOIN search_rows ON search_rows.target_row = p.target_row AND search_rows.golden_row = p.golden_row
LEFT JOIN search_layouts
    ON search_layouts.target_content = p.target_content AND search_layouts.golden_content = p.golden_content
LEFT JOIN left_over ON left_over.row = p.row
ORDER BY p.row
