-- layer_scopes: the place of an op in the model; for the target, under golden's names.
-- grain: one op of one side whose name has a known form
-- side: target or golden
-- scope: the path of a module; for an API call the path of the module around it, the framework's function that called
--   it, and its last name
-- wide_scope: the same without that function, for a call in a module
-- A backward call has the scope of its forward call. The layers of a ParallelTransformer count from 0, because a
-- pipeline stage may number its own layers or those of the whole model.
-- layer_mapping: at a module of that class (TopLayer or Cell: the model), the longest target_scope that continues the
--   scope is replaced by golden_scope (without a parenthesis); all else keeps its name.
WITH RECURSIVE
    ops AS (
        SELECT 'target' AS side, seq, part, op, op_kind, direction, api_type, api, module_class, parent, stack FROM target_ops
        UNION ALL
        SELECT 'golden' AS side, seq, part, op, op_kind, direction, api_type, api, module_class, parent, stack FROM golden_ops
    ),
    calls AS (
        SELECT
            own.side,
            own.seq,
            own.part,
            own.op_kind,
            own.direction,
            split_part(own.api, '.', -1) AS name,
            coalesce(forward.parent, own.parent) AS parent,
            if(own.api_type IN ('Primitive', 'Jit'), NULL, if(forward.seq IS NULL, own.stack, forward.stack)) AS stack
        FROM ops AS own
        LEFT JOIN ops AS forward
            ON own.direction = 'backward'
            AND forward.side = own.side
            AND forward.part = own.part
            AND forward.op = regexp_replace(own.op, 'backward$', 'forward')
        WHERE own.op_kind = 'api'
    ),
    -- from a parent outwards to the first module; a cycle, or more than 100 steps, means a damaged construct.json
    around AS (
        SELECT DISTINCT
            side,
            part,
            parent,
            parent AS op,
            layer_module(parent) AS module,
            0 AS steps
        FROM calls
        WHERE parent IS NOT NULL
        UNION ALL
        SELECT
            around.side,
            around.part,
            around.parent,
            ops.parent AS op,
            layer_module(ops.parent) AS module,
            steps + 1 AS steps
        FROM around
        JOIN ops USING (side, part, op)
        WHERE around.module IS NULL AND ops.parent IS NOT NULL AND steps < 100
    ),
    classes AS (
        SELECT
            side,
            path,
            min(class) AS class
        FROM (
            SELECT side, api AS path, module_class AS class FROM ops WHERE module_class IS NOT NULL
            UNION ALL
            SELECT side, module.path, module.class FROM around WHERE module IS NOT NULL
        )
        GROUP BY side, path
    ),
    functions AS (
        SELECT 'target' AS side, stack, layer_function(frames) AS function FROM target_stacks
        UNION ALL
        SELECT 'golden' AS side, stack, layer_function(frames) AS function FROM golden_stacks
    ),
    placed AS (
        SELECT
            calls.side,
            seq,
            calls.part,
            op_kind,
            direction,
            concat_ws('.', path, function, name) AS scope,
            concat_ws('.', path, if(path IS NULL, function, NULL), name) AS wide_scope
        FROM calls
        LEFT JOIN (
            SELECT side, part, parent, nullif(module.path, '') AS path FROM around WHERE module IS NOT NULL
        ) AS enclosing
            ON enclosing.side = calls.side AND enclosing.part = calls.part AND enclosing.parent = calls.parent
        LEFT JOIN functions ON functions.side = calls.side AND functions.stack = calls.stack
        UNION ALL
        SELECT side, seq, part, op_kind, direction, api AS scope, api AS wide_scope FROM ops WHERE module_class IS NOT NULL
    ),
    scopes AS (
        SELECT side, scope, string_split(scope, '.') AS parts
        FROM (SELECT side, scope FROM placed UNION SELECT side, wide_scope FROM placed)
    ),
    -- the parts of a scope one by one, each with the class of the module before it
    levels AS (
        SELECT
            level.*,
            if(place = 0, 'TopLayer', coalesce(class, parts[place])) AS class
        FROM (
            SELECT *, array_to_string(parts[:place], '.') AS path
            FROM (SELECT *, unnest(range(len(parts))) AS place FROM scopes)
        ) AS level
        LEFT JOIN classes USING (side, path)
    ),
    layers AS (
        SELECT
            side,
            scope,
            place + 2 AS place,
            parts[place + 2]::INTEGER - min(parts[place + 2]::INTEGER) OVER (PARTITION BY side, path) AS number
        FROM levels
        WHERE
            class = 'ParallelTransformer'
            AND parts[place + 1] = 'layers'
            AND regexp_full_match(parts[place + 2], '\d{1,9}')
    ),
    numbers AS (
        SELECT
            side,
            scope,
            map_from_entries(list((place, number::VARCHAR))) AS numbers
        FROM layers
        GROUP BY side, scope
    ),
    numbered AS (
        SELECT
            side,
            scope,
            if(
                numbers IS NULL,
                parts,
                list_transform(parts, lambda part, place: coalesce(numbers[place], part))
            ) AS parts
        FROM scopes
        LEFT JOIN numbers USING (side, scope)
    ),
    rules AS (
        SELECT
            if(class = 'Cell', 'TopLayer', class) AS class,
            string_split(target_scope, '.') AS parts,
            split_part(golden_scope, '(', 1) AS golden_scope,
            place
        FROM layer_mapping
    ),
    renames AS (
        SELECT
            scope,
            levels.place,
            max_by(
                {'length': len(rules.parts), 'golden_scope': golden_scope},
                (len(rules.parts), -rules.place)
            ) AS rename
        FROM levels
        JOIN rules USING (class)
        JOIN numbered USING (side, scope)
        WHERE side = 'target' AND numbered.parts[levels.place + 1:levels.place + len(rules.parts)] = rules.parts
        GROUP BY scope, levels.place
    ),
    -- from the model inwards, one part or those of a rule at a time
    walk AS (
        SELECT
            scope,
            parts,
            0 AS place,
            NULL::VARCHAR AS golden_scope
        FROM numbered
        WHERE side = 'target' AND scope IN (SELECT scope FROM renames)
        UNION ALL
        SELECT
            scope,
            parts,
            place + coalesce(rename.length, 1) AS place,
            concat_ws('.', golden_scope, coalesce(rename.golden_scope, parts[place + 1])) AS golden_scope
        FROM walk
        LEFT JOIN renames USING (scope, place)
        WHERE place < len(parts)
    ),
    translated AS (
        SELECT
            side,
            numbered.scope,
            coalesce(golden_scope, array_to_string(numbered.parts, '.')) AS golden_scope
        FROM numbered
        LEFT JOIN walk ON side = 'target' AND walk.scope = numbered.scope AND place = len(walk.parts)
    )
SELECT
    side,
    seq,
    part,
    op_kind,
    direction,
    narrow.golden_scope AS scope,
    wide.golden_scope AS wide_scope
FROM placed
JOIN translated AS narrow USING (side, scope)
JOIN translated AS wide ON wide.side = placed.side AND wide.scope = wide_scope
