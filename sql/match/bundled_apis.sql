-- bundled_apis: the bundled table of MindSpore's APIs with their counterparts in PyTorch, except for APIs that the user
--   has mapped.
-- grain: one API of MindSpore
-- parameters: $1 (schemas/data/apis.csv)
SELECT
    1000000 + row_number() OVER (ORDER BY target_api, golden_api) AS place,
    target_api,
    golden_api
FROM read_csv($1, header = true, all_varchar = true)
WHERE target_api NOT IN (SELECT target_api FROM api_mapping)
