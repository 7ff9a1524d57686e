-- close_names: the ops and module paths most similar to an unknown name.
-- grain: one name, best first
-- parameters: $name; the table drift_ops
SELECT known
FROM (SELECT op AS known FROM drift_ops UNION SELECT path FROM drift_ops WHERE path IS NOT NULL)
ORDER BY jaro_winkler_similarity(lower(known), lower($name)) DESC, known
LIMIT 3
