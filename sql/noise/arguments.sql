-- arguments: ops of which a value, dtype or shape of an input differs, or only that of an output; or whether it is trained.
-- grain: one op and the leaf that shows it
-- parameters: the tables paired, differences, verdicts, noise_ops, noise_leaves, noise_makers and noise_errors
WITH
    recorded AS (
        SELECT
            coalesce(t.number, g.number) AS number,
            p.role,
            coalesce(target_kind, golden_kind) = 'tensor' AS is_tensor,
            bool_or(target_row IS NOT NULL) AND bool_or(golden_row IS NOT NULL) AS both
        FROM paired AS p
        LEFT JOIN noise_ops AS t ON t.target_seq = p.target_seq
        LEFT JOIN noise_ops AS g ON g.golden_seq = p.golden_seq AND p.target_seq IS NULL
        GROUP BY ALL
    ),
    -- a leaf of one side alone belongs to the pair of its op
    alone AS (
        SELECT
            coalesce(t.number, g.number) AS number,
            p.row,
            p.role,
            coalesce(target_kind, golden_kind) = 'tensor' AS is_tensor
        FROM paired AS p
        LEFT JOIN noise_ops AS t ON t.target_seq = p.target_seq AND t.side = 'pair'
        LEFT JOIN noise_ops AS g ON g.golden_seq = p.golden_seq AND g.side = 'pair'
        JOIN verdicts AS v ON v.row = p.row AND v.verdict <> 'skipped'
        WHERE p.target_row IS NULL OR p.golden_row IS NULL
    ),
    calls AS (
        SELECT
            o.number,
            o.place,
            o.api,
            p.row,
            p.role NOT IN ('output', 'parameters_grad') AS is_input,
            p.target_kind = 'tensor' AND p.golden_kind = 'tensor' AS is_tensor,
            NOT same_dtype(p.target_dtype, p.golden_dtype) AS other_dtype,
            -- where inputs lie otherwise in memory, a function may end in another step, whose gradient has another shape
            NOT same_shape(p.target_shape, p.golden_shape, p.matched_by)
            AND NOT (
                o.phase = 'backward'
                AND (
                    list_product(p.target_shape) = list_product(p.golden_shape)
                    OR o.call_key IN (SELECT call_key FROM noise_ops WHERE direction = 'forward' AND side = 'pair')
                )
            ) AS other_shape,
            -- rows that an op took which was not recorded, as an index does
            coalesce(m.is_source AND len(p.target_shape) > 1 AND p.target_shape[2:] = p.golden_shape[2:], false) AS are_rows,
            p.target_kind = p.golden_kind
            AND p.target_number IS NOT NULL
            AND p.golden_number IS NOT NULL
            AND abs(p.target_number - p.golden_number)
            <= if(lowness.is_low, 0.03, 0.01) * greatest(abs(p.target_number), abs(p.golden_number))
            AND NOT (is_written(p.target_number) AND is_written(p.golden_number))
            AND (
                NOT coalesce(is_root(p.golden_number), false)
                OR abs(p.target_number - p.golden_number) <= getvariable('coarsest_other') * abs(p.golden_number)
            ) AS is_measured,
            -- what an op gives, or a module takes, may be counted from what was chosen
            coalesce(
                (o.op_kind = 'module' OR NOT is_input) AND p.target_number % 1 = 0 AND p.golden_number % 1 = 0, false
            ) AS is_count
        FROM paired AS p
        JOIN differences AS d ON d.row = p.row
        JOIN noise_ops AS o ON o.target_seq = p.target_seq AND o.side = 'pair' AND p.golden_seq IS NOT NULL
        LEFT JOIN noise_makers AS m ON m.row = p.row
        CROSS JOIN (SELECT bool_or(is_low_precision(spacing)) AS is_low FROM noise_errors) AS lowness
        JOIN verdicts AS v ON v.row = p.row AND v.verdict <> 'skipped'
        WHERE d.difference = 'different' AND p.role <> 'parameters_grad'
    ),
    -- apart, because a name that is used in the same SELECT stands for its expression again
    valued AS (
        SELECT *, NOT is_tensor AND NOT coalesce(is_measured, false) AS is_value FROM calls
    ),
    forms AS (
        SELECT
            number,
            place,
            api,
            min(row) FILTER (WHERE is_value AND NOT is_count AND is_input) AS value_row,
            min(row) FILTER (WHERE is_value AND NOT is_count AND NOT is_input) AS made_value_row,
            min(row) FILTER (WHERE is_value AND is_count) AS count_row,
            min(row) FILTER (WHERE is_input AND is_tensor AND other_dtype) AS dtype_row,
            min(row) FILTER (WHERE NOT is_input AND is_tensor AND other_dtype) AS made_dtype_row,
            min(row) FILTER (WHERE is_input AND is_tensor AND other_shape) AS shape_row,
            coalesce(bool_and(are_rows) FILTER (WHERE is_input AND is_tensor AND other_shape), false) AS are_rows,
            min(row) FILTER (WHERE NOT is_input AND is_tensor AND other_shape) AS made_shape_row
        FROM valued
        GROUP BY ALL
    ),
    -- a shape that hangs on data differs: so do those behind it, as behind a choice that rounding flipped. How many rows are
    -- taken hangs on a choice, though its statistics may be the same
    flips AS (
        SELECT min(place) FILTER (WHERE differs) AS place, min(place) AS choice
        FROM (
            SELECT place, true AS differs
            FROM forms
            WHERE
                made_shape_row IS NOT NULL
                AND shape_row IS NULL
                AND regexp_matches(api, '^(where|nonzero|argwhere|unique|unique_consecutive|masked_select)$')
            UNION ALL
            SELECT o.place, l.differs
            FROM noise_leaves AS l
            JOIN noise_ops AS o USING (number)
            LEFT JOIN noise_errors AS e USING (number)
            WHERE
                o.is_leaf
                AND l.role = 'output'
                AND NOT l.is_float
                AND (l.differs OR e.error_in > 0)
                AND regexp_matches(o.api, '^(top_?k|(arg_?)?(max|min|sort)|multinomial|mode|median|kthvalue|bucketize|searchsorted)$')
        )
    ),
    first_forms AS (
        SELECT
            min(place) FILTER (WHERE made_dtype_row IS NOT NULL) AS dtype_place,
            min(place) FILTER (WHERE made_shape_row IS NOT NULL) AS shape_place
        FROM forms
    ),
    arguments AS (
        SELECT
            number,
            coalesce(
                value_row,
                if(forms.place <= coalesce(dtype_place, 'inf'), dtype_row, NULL),
                if(forms.place <= coalesce(shape_place, 'inf') AND forms.place < coalesce(if(are_rows, choice, flips.place), 'inf'), shape_row, NULL),
                made_value_row,
                if(forms.place < coalesce(flips.place, 'inf'), count_row, NULL),
                if(dtype_row IS NULL, made_dtype_row, NULL),
                if(shape_row IS NULL AND forms.place < coalesce(flips.place, 'inf'), made_shape_row, NULL)
            ) AS row
        FROM forms
        CROSS JOIN first_forms
        CROSS JOIN flips
        UNION ALL
        SELECT number, alone.row
        FROM alone
        JOIN recorded USING (number, role, is_tensor)
        WHERE recorded.both AND role = 'input'
    ),
    -- a module that one run calls again, to recompute what it gave, runs without gradients first
    called_again AS (
        SELECT module_of(op) AS module
        FROM noise_ops
        WHERE op_kind = 'module' AND direction = 'forward'
        GROUP BY module
        HAVING count(DISTINCT side) > 1
    ),
    -- what is trained in one run only is told where it is taken or made first
    trained AS (
        SELECT o.number, p.row
        FROM paired AS p
        JOIN verdicts AS v ON v.row = p.row AND list_contains(v.messages, message_of('trained apart'))
        JOIN noise_ops AS o ON o.target_seq = p.target_seq AND o.golden_seq = p.golden_seq
        WHERE
            o.phase = 'forward'
            AND o.is_leaf
            AND coalesce(module_of(o.parent) NOT IN (FROM called_again), true)
        ORDER BY o.number, p.row
        LIMIT 1
    )
SELECT number, min(row) AS row FROM arguments WHERE row IS NOT NULL GROUP BY number
UNION ALL
FROM trained
