-- idle_layers: names in the user's layer mapping that the runs do not have, so that their lines have no effect.
-- grain: one name of one side
-- A scope may have parts of the ops' names and of the functions between them, as layer_scopes makes it. Numbers are not
-- looked for, because layers may be counted from elsewhere.
WITH
    parts AS (
        SELECT 'target' AS side, unnest(string_split(concat_ws('.', op, parent), '.')) AS part FROM target_ops
        UNION
        SELECT 'golden' AS side, unnest(string_split(concat_ws('.', op, parent), '.')) AS part FROM golden_ops
        UNION
        SELECT 'target' AS side, layer_function(frames) AS part FROM target_stacks
        UNION
        SELECT 'golden' AS side, layer_function(frames) AS part FROM golden_stacks
    ),
    named AS (
        SELECT place, 0 AS nth, 'target' AS side, class AS name FROM layer_mapping WHERE class NOT IN ('TopLayer', 'Cell')
        UNION ALL
        SELECT place, 1 AS nth, 'target' AS side, target_scope AS name FROM layer_mapping
        UNION ALL
        SELECT place, 2 AS nth, 'golden' AS side, split_part(golden_scope, '(', 1) AS name FROM layer_mapping
    ),
    wanted AS (
        SELECT *, unnest(string_split(name, '.')) AS part
        FROM named
    )
SELECT
    'layer mapping' AS mapping,
    side,
    name
FROM wanted
ANTI JOIN parts USING (side, part)
WHERE NOT regexp_full_match(part, '\d+')
GROUP BY side, name
ORDER BY min((place, nth))
