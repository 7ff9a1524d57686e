-- similar_api: the API or module whose name is most like a text.
-- grain: one row, or none if no name is like it
-- parameters: $pattern; the view ops
SELECT api
FROM ops
WHERE api IS NOT NULL
GROUP BY api
HAVING jaro_winkler_similarity(api, $pattern) > 0.85
ORDER BY jaro_winkler_similarity(api, $pattern) DESC, api
LIMIT 1
