-- bundled_apis: the bundled table of MindSpore's APIs with their counterparts in PyTorch, except for APIs that the user
--   has mapped.
-- grain: one API of MindSpore
-- parameters: $1 (schemas/data/apis.csv)
SELECT
    row_number() OVER (ORDER BY target_api, golden_api) + (SELECT count(*) FROM api_mapping) AS place,
    true AS is_bundled,
    target_api,
    golden_api
FROM read_csv($1, header = true, all_varchar = true)
WHERE target_api NOT IN (SELECT target_api FROM api_mapping)
