-- idle_lines: names in the user's mapping files that the runs do not have, so that their lines have no effect.
-- grain: one name of one side
-- parameters: the tables of the mappings and of the ops; renamed_ops
WITH
    apis AS (
        SELECT 'target' AS side, unnest(api_keys(api_type, api, module_class)) AS api FROM target_ops
        UNION
        SELECT 'golden' AS side, unnest(api_keys(api_type, api, module_class)) AS api FROM golden_ops
    ),
    rows AS (
        SELECT 'target' AS side, regexp_replace(name, '\.parameters_grad\.\d+\.', '.parameters_grad.') AS name FROM target
        UNION
        SELECT 'golden' AS side, regexp_replace(name, '\.parameters_grad\.\d+\.', '.parameters_grad.') AS name FROM golden
    ),
    stems AS (
        SELECT stem FROM target_ops
        UNION
        SELECT stem FROM renamed_ops
    ),
    named AS (
        SELECT 'API mapping' AS mapping, place, 'target' AS side, target_api AS name FROM api_mapping WHERE NOT is_bundled
        UNION ALL
        SELECT 'API mapping' AS mapping, place, 'golden' AS side, golden_api AS name FROM api_mapping WHERE NOT is_bundled
    ),
    lines AS (
        SELECT mapping, place, side, name FROM named ANTI JOIN apis ON apis.side = named.side AND apis.api = named.name
        UNION ALL
        SELECT 'cell mapping' AS mapping, place, 'target' AS side, target_text AS name
        FROM cell_mapping
        ANTI JOIN stems ON contains(stems.stem, cell_mapping.target_text)
        UNION ALL
        SELECT 'data mapping' AS mapping, place, 'target' AS side, target_name AS name
        FROM data_mapping
        ANTI JOIN rows
            ON rows.side = 'target'
            AND rows.name = regexp_replace(target_name, '\.parameters_grad\.\d+\.', '.parameters_grad.')
        UNION ALL
        SELECT 'data mapping' AS mapping, place, 'golden' AS side, golden_name AS name
        FROM data_mapping
        ANTI JOIN rows
            ON rows.side = 'golden'
            AND rows.name = regexp_replace(golden_name, '\.parameters_grad\.\d+\.', '.parameters_grad.')
    )
SELECT mapping, side, name
FROM lines
ORDER BY mapping, place, side DESC
