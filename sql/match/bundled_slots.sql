-- bundled_slots: the bundled table of arguments and outputs with other names or places, except for APIs that the user
--   has mapped.
-- grain: one slot of one API
-- parameters: $1 (schemas/data/slots.csv)
SELECT
    row_number() OVER (ORDER BY target_api, golden_api, direction, target_slot, golden_slot) + (SELECT count(*) FROM slot_mapping) AS place,
    true AS is_bundled,
    target_api,
    golden_api,
    direction,
    target_slot,
    golden_slot
FROM read_csv($1, header = true, all_varchar = true)
WHERE target_api NOT IN (SELECT target_api FROM api_mapping)
