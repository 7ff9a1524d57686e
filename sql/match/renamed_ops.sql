-- renamed_ops: the target's ops under the names that golden gives them.
-- grain: one op of the target
-- renamed_by: what gave the name: api (api_mapping), cell (cell_mapping), class (class_mapping), prefix (between
--   frameworks Cell → Module, Mint → Torch, …), or exact for an unchanged name.
-- call_number: as in target_ops; if several names become one, the position among the ops of that name. NULL for a module that
--   is given the name of another one, which has no counterpart
-- An API mapping precedes a cell mapping, whose lines apply to a whole path.Class, or else to parts of any name.
WITH
    names AS (
        SELECT DISTINCT
            concat_ws('.', api_type, api, module_class) AS name,
            api_keys(api_type, api, module_class) AS keys,
            module_class IS NOT NULL AS is_module
        FROM target_ops
        WHERE direction IS NOT NULL OR op_kind IN ('debug', 'parameter')
        UNION
        SELECT DISTINCT
            module_of(parent) AS name,
            [] AS keys,
            true AS is_module
        FROM target_ops
        WHERE parent IS NOT NULL AND module_of(parent) NOT IN (SELECT concat_ws('.', api_type, api, module_class) FROM target_ops)
    ),
    by_api AS (
        SELECT
            names.name,
            arg_min(api_mapping.golden_api, api_mapping.place) AS golden_name
        FROM names
        JOIN api_mapping ON list_contains(names.keys, api_mapping.target_api)
        WHERE NOT is_module
        GROUP BY names.name
    ),
    prefixed AS (
        SELECT
            names.name,
            is_module,
            by_api.golden_name AS by_api,
            if(
                (SELECT other_names FROM comparison_kind),
                coalesce(prefix_of(split_part(names.name, '.', 1)) || substr(names.name, strpos(names.name, '.')), names.name),
                names.name
            ) AS prefixed,
            substr(names.name, strpos(names.name, '.') + 1) AS path
        FROM names
        LEFT JOIN by_api ON by_api.name = names.name
    ),
    by_cell AS (
        SELECT
            prefixed.*,
            coalesce(
                split_part(prefixed, '.', 1) || '.' || whole.golden_text,
                list_reduce(
                    list_prepend(
                        {'text': prefixed, 'other': ''},
                        coalesce((SELECT list({'text': target_text, 'other': golden_text} ORDER BY place) FROM cell_mapping), [])
                    ),
                    lambda done, line: {'text': replaced_once(done.text, line.text, line.other), 'other': ''}
                ).text
            ) AS by_cell
        FROM prefixed
        LEFT JOIN cell_mapping AS whole ON is_module AND whole.target_text = path
    ),
    by_class AS (
        SELECT
            by_cell.*,
            regexp_replace(prefixed, '[^.]*$', '') || golden_class AS by_class
        FROM by_cell
        LEFT JOIN class_mapping ON is_module AND target_class = split_part(prefixed, '.', -1)
    ),
    renamed AS (
        SELECT
            name,
            CASE
                WHEN by_api IS NOT NULL THEN {'name': by_api, 'by': 'api'}
                WHEN by_cell <> prefixed THEN {'name': by_cell, 'by': 'cell'}
                WHEN by_class IS NOT NULL THEN {'name': by_class, 'by': 'class'}
                WHEN prefixed <> name THEN {'name': prefixed, 'by': 'prefix'}
                ELSE {'name': name, 'by': 'exact'}
            END AS golden
        FROM by_class
    ),
    ops AS (
        SELECT
            target_ops.seq,
            target_ops.part,
            target_ops.stem AS own_stem,
            target_ops.call_number,
            coalesce(
                CASE
                    WHEN op_kind NOT IN ('debug', 'parameter') THEN renamed.golden.name || '.' || direction
                    WHEN renamed.golden.by <> 'exact'
                        THEN regexp_replace(renamed.golden.name, '^(debug|Parameter)\.', '') || substr(target_ops.stem, length(api) + 1)
                END,
                target_ops.stem
            ) AS stem,
            coalesce(renamed.golden.by, 'exact') AS renamed_by,
            op_kind = 'module' AS is_module,
            renamed_by IN ('exact', 'prefix') AS keeps_name,
            parents.golden.name || substr(parent, length(module_of(parent)) + 1) AS parent
        FROM target_ops
        LEFT JOIN renamed
            ON renamed.name = concat_ws('.', api_type, api, module_class)
            AND (direction IS NOT NULL OR op_kind IN ('debug', 'parameter'))
        LEFT JOIN renamed AS parents ON parents.name = module_of(parent)
    )
SELECT
    seq,
    part,
    stem,
    parent,
    renamed_by,
    CASE
        WHEN min(own_stem) OVER namesakes = max(own_stem) OVER namesakes THEN call_number
        -- two modules of the target may share one of golden, but not one that the target has under its own name
        WHEN is_module AND bool_or(keeps_name) OVER namesakes THEN if(keeps_name, call_number, NULL)
        ELSE row_number() OVER (PARTITION BY part, stem ORDER BY seq) - 1
    END AS call_number
FROM ops
WINDOW namesakes AS (PARTITION BY part, stem)
