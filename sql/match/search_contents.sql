-- search_contents: the pairs of contents whose memory layouts are to be compared.
-- grain: one pair of contents, of pairs that the search found
-- are_alike: whether their statistics agree
SELECT
    t.content AS target_content,
    g.content AS golden_content,
    any_value(target_contents.reference) AS target_reference,
    any_value(golden_contents.reference) AS golden_reference,
    coalesce(
        bool_or(
            abs(t.max - g.max) <= 1e-4 * greatest(abs(t.max), abs(t.min))
            AND abs(t.min - g.min) <= 1e-4 * greatest(abs(t.max), abs(t.min))
            AND abs(t.norm - g.norm) <= 1e-4 * t.norm
        ),
        false
    ) AS are_alike
FROM search_rows
JOIN target_leaves AS t ON t.row = search_rows.target_row
JOIN golden_leaves AS g ON g.row = search_rows.golden_row
JOIN target_contents ON target_contents.content = t.content
JOIN golden_contents ON golden_contents.content = g.content
WHERE t.content <> g.content
GROUP BY t.content, g.content
ORDER BY t.content, g.content
