-- makers: the ops that made the value of each input, in either run.
-- grain: one input tensor of a pair of ops
-- parameters: the table noise_leaves
-- target_makers, golden_makers: the numbers of the earlier ops with this value as an output
-- is_source: no recorded op made it in either run (integers: in one run), and no module before received it: a parameter, a
--   buffer or data. Integers come to each op that takes them, since a module may look at their shape alone
-- is_parameter: it is a parameter of a module, or an optimizer takes it
-- is_trained: a source that requires a gradient: a parameter too, where no module was recorded, or computed by an op that
--   was not
-- is_exact: such a source is equal to the last bit: a parameter, or one whose like, of its size, is equal in most ops of this
--   kind. Where parameters are known, what requires a gradient and is none was computed by an op that was not recorded
WITH
    leaves AS (
        SELECT
            *,
            op_is_leaf AS is_leaf,
            -- a single number has no key, since it identifies nothing, unless it is trained
            coalesce(target_key, if(is_trained AND n = 1, hash(target_norm), NULL)) AS target_parameter,
            coalesce(golden_key, if(is_trained AND n = 1, hash(golden_norm), NULL)) AS golden_parameter
        FROM noise_leaves
        WHERE is_paired AND number IS NOT NULL
    ),
    -- a value is known by its key, and by its norm where other values have the same extremes
    target_outputs AS (
        SELECT target_key AS key, sights(number, target_norm) AS makers
        FROM leaves
        WHERE NOT is_input AND target_key IS NOT NULL
        GROUP BY key
    ),
    golden_outputs AS (
        SELECT golden_key AS key, sights(number, golden_norm) AS makers
        FROM leaves
        WHERE NOT is_input AND golden_key IS NOT NULL
        GROUP BY key
    ),
    given AS (
        SELECT target_key AS key, differs, sights(number, target_norm) AS takers
        FROM leaves
        WHERE is_input AND NOT is_leaf AND role = 'input' AND target_key IS NOT NULL
        GROUP BY key, differs
    ),
    -- what modules record, and what an optimizer takes that requires a gradient: no tool records the parameters that the model
    -- itself owns, beside those of its modules
    parameters_known AS (
        SELECT role = 'parameters' AS is_of_module, target_parameter, golden_parameter
        FROM leaves
        WHERE role = 'parameters' OR (is_input AND is_trained AND phase = 'optimizer')
    ),
    parameters AS (
        SELECT target_parameter AS key FROM parameters_known WHERE target_parameter IS NOT NULL
        UNION
        SELECT golden_parameter FROM parameters_known WHERE golden_parameter IS NOT NULL
    ),
    traced AS (
        SELECT
            l.number,
            l.row,
            l.kind,
            l.slot,
            l.phase,
            l.is_leaf,
            l.role,
            l.is_float,
            l.is_trained AND l.phase = 'forward' AS requires_grad,
            l.spacing,
            l.differs,
            l.is_other_constant,
            l.has_same_extremes,
            l.has_other_sums,
            l.is_bounded,
            l.error,
            l.upper,
            l.taken,
            l.n,
            l.magnitude,
            l.is_masked,
            l.target_key,
            l.golden_key,
            l.target_norm,
            -- a gradient of 16 bits may pass several additions that move no extreme, and its norm by less than one rounding
            greatest(getvariable('same_norm'), if(l.phase = 'backward', l.spacing / 4, 0)) AS share,
            known_before(t.makers, l.number, l.target_norm, share) AS target_makers,
            known_before(g.makers, l.number, l.golden_norm, share) AS golden_makers,
            coalesce(l.role = 'parameters' OR tp.key IS NOT NULL OR gp.key IS NOT NULL, false) AS is_parameter
        FROM leaves AS l
        LEFT JOIN target_outputs AS t ON t.key = l.target_key
        LEFT JOIN golden_outputs AS g ON g.key = l.golden_key
        LEFT JOIN parameters AS tp ON tp.key = l.target_parameter
        LEFT JOIN parameters AS gp ON gp.key = l.golden_parameter
        WHERE l.is_input
    ),
    sourced AS (
        SELECT
            traced.* EXCLUDE (target_norm, share),
            requires_grad AND NOT is_parameter AND EXISTS (FROM parameters_known WHERE is_of_module) AS is_computed,
            -- What is whole in one run as an op made it, and not in the other, is another value: labels that are the input,
            -- wrong in one run. Zeros and ones that a program counts by are often as many in another tensor, in one run.
            if(
                NOT is_float,
                len(target_makers) = 0 OR len(golden_makers) = 0,
                len(target_makers) = 0 AND len(golden_makers) = 0
            )
            AND if(NOT is_float AND (is_bounded OR is_leaf), true, len(known_before(takers, traced.number, target_norm, share)) = 0) AS is_source
        FROM traced
        -- what agrees there and differs here is another value, of which contents alone may tell
        LEFT JOIN given ON given.key = traced.target_key AND given.differs IS NOT DISTINCT FROM traced.differs
    ),
    exact_places AS (
        SELECT kind, slot, n
        FROM sourced
        -- numbers that differ from each other: zeros are equal anywhere
        WHERE is_source AND target_key IS NOT NULL
        GROUP BY kind, slot, n
        HAVING count(*) >= 3 AND avg(differs::INTEGER) <= 0.2
    )
SELECT
    sourced.* EXCLUDE (kind, slot, requires_grad, is_computed),
    is_source AND requires_grad AS is_trained,
    is_source AND (is_parameter OR (sourced.n >= 64 AND exact_places.kind IS NOT NULL AND NOT is_computed)) AS is_exact
FROM sourced
LEFT JOIN exact_places ON exact_places.kind = sourced.kind AND exact_places.slot = sourced.slot AND exact_places.n = sourced.n
