-- hidden_views: views that cannot be seen, because a temporary table has their name.
-- grain: one view
SELECT view_name
FROM duckdb_views()
WHERE NOT internal AND NOT temporary AND view_name IN (SELECT table_name FROM duckdb_tables() WHERE temporary)
ORDER BY view_name
