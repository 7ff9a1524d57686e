-- severities: how severe a difference between two settings is, by their name; the first rule that fits counts.
-- grain: one rule
-- parameters: $1 (schemas/data/preflight_severities.csv)
SELECT
    place::INTEGER AS place,
    pattern,
    severity,
    meaning
FROM read_csv($1, header = true, all_varchar = true)
