-- absent_apis: the APIs that were asked for and that no rank has.
-- grain: one API
-- parameters: $apis; the table merge_names
SELECT api
FROM (SELECT unnest($apis::VARCHAR[]) AS api) AS asked
WHERE NOT EXISTS (FROM merge_names WHERE starts_with(name || '.', api || '.'))
