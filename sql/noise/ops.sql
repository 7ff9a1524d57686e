-- ops: the ops of both sides as pairs, in program order.
-- grain: one pair of ops, or an op of one side
-- parameters: the tables paired, target_ops and golden_ops
-- place: the op's place in the target; an op that only golden has follows the paired op before it
-- An extra op on one side shifts the call numbers of later calls, so that ops with one name are different calls. Such
--   ops are in different modules, or run at another place and take other arguments or are more in one run, and this query
--   separates them, unless the modules of the two programs differ anyway.
-- api: its own or, of a module of another name or the last of several ops that do what a normalisation of golden does, golden's
-- is_leaf: not a module in which other ops were recorded; between two implementations, in which others were compared
-- rounding: in a dump of modules alone that of a matrix product, where a module may have one inside
-- phase: forward, backward, or optimizer (what is called after the last backward op, or by an optimizer)
WITH
    named AS (
        SELECT
            target_seq,
            min(golden_seq) AS golden_seq,
            bool_and(matched_by = 'exact') AS is_by_name,
            bool_or(
                target_number <> golden_number
                OR (target_kind = 'tensor' AND golden_kind = 'tensor' AND len(target_shape) <> len(golden_shape))
            ) AS takes_others,
            bool_and(
                target_shape = golden_shape
                AND abs(target_norm - golden_norm) <= 0.02 * golden_norm
                AND abs(target_max - golden_max) <= 0.02 * greatest(abs(golden_max), abs(golden_min))
                AND abs(target_min - golden_min) <= 0.02 * greatest(abs(golden_max), abs(golden_min))
            ) FILTER (WHERE target_kind = 'tensor' AND golden_kind = 'tensor' AND golden_norm > 0) AS is_alike
        FROM paired
        WHERE target_seq IS NOT NULL AND golden_seq IS NOT NULL
        GROUP BY target_seq
    ),
    -- two calls of which one runs ahead of what was called around the other
    crossing AS (
        SELECT
            *,
            coalesce(
                lag(target_seq) OVER calls < lead(target_seq) OVER calls
                AND target_seq NOT BETWEEN lag(target_seq) OVER calls AND lead(target_seq) OVER calls,
                false
            ) AS is_crossing
        FROM named
        WINDOW calls AS (ORDER BY golden_seq)
    ),
    -- called more often in one run: all later calls have the number of another
    uneven AS (
        SELECT stem
        FROM (SELECT stem, 1 AS calls FROM target_ops UNION ALL SELECT stem, -1 FROM golden_ops)
        GROUP BY stem
        HAVING sum(calls) <> 0
    ),
    target_modules AS (
        SELECT DISTINCT module_of(parent) FROM (SELECT DISTINCT parent FROM target_ops WHERE parent IS NOT NULL)
    ),
    golden_modules AS (
        SELECT DISTINCT module_of(parent) FROM (SELECT DISTINCT parent FROM golden_ops WHERE parent IS NOT NULL)
    ),
    -- looked up for those in different modules only, which are few
    moved AS MATERIALIZED (
        SELECT
            target_seq,
            module_of(t.parent) AS target_module,
            module_of(g.parent) AS golden_module,
            is_alike
        FROM named
        JOIN target_ops AS t ON t.seq = target_seq
        JOIN golden_ops AS g ON g.seq = golden_seq
        WHERE t.parent IS DISTINCT FROM g.parent AND module_of(t.parent) IS DISTINCT FROM module_of(g.parent)
    ),
    -- A module that the other run has nowhere has another name there. If the other one has not, it may be new, or a
    -- wrapper: what is called there is the same call if it takes and gives about the same.
    elsewhere AS (
        SELECT target_seq
        FROM moved
        WHERE
            CASE
                coalesce(target_module IN (FROM golden_modules), true)::INTEGER
                + coalesce(golden_module IN (FROM target_modules), true)::INTEGER
                WHEN 1 THEN is_alike IS DISTINCT FROM true
                WHEN 2 THEN true
                ELSE false
            END
    ),
    modules AS (
        SELECT
            target_seq,
            golden_seq,
            is_by_name
            AND getvariable('cross_framework') = 0
            AND t.op_kind = 'api'
            AND (
                target_seq IN (FROM elsewhere)
                OR (is_crossing AND (takes_others OR t.stem IN (FROM uneven)) AND t.direction = 'forward')
            ) AS is_apart
        FROM crossing
        JOIN target_ops AS t ON t.seq = target_seq
    ),
    pairs AS (
        SELECT target_seq, golden_seq
        FROM modules
        WHERE NOT coalesce(is_apart, false) OR (SELECT avg(coalesce(is_apart, false)::INTEGER) > 0.5 FROM modules)
    ),
    compared AS (
        SELECT target_seq FROM paired WHERE target_row IS NOT NULL AND golden_row IS NOT NULL AND role = 'output'
    ),
    parents AS (
        SELECT parent AS op
        FROM target_ops
        WHERE parent IS NOT NULL AND (getvariable('cross_framework') = 0 OR seq IN (FROM compared))
        UNION
        SELECT parent FROM golden_ops WHERE parent IS NOT NULL AND getvariable('cross_framework') = 0
    ),
    recorded AS (
        SELECT DISTINCT target_seq, golden_seq FROM paired
    ),
    -- apart: all ops would look for the pair before them
    alone AS (
        FROM golden_ops
        WHERE
            seq IN (SELECT golden_seq FROM recorded WHERE golden_seq IS NOT NULL)
            AND seq NOT IN (SELECT golden_seq FROM pairs)
    ),
    placed AS (
        SELECT
            t.seq AS target_seq,
            pairs.golden_seq,
            t.seq::DOUBLE AS place,
            coalesce(whole.module_class, whole.api) AS whole_api,
            t.*
        FROM target_ops AS t
        LEFT JOIN pairs ON pairs.target_seq = t.seq
        LEFT JOIN golden_ops AS whole
            ON whole.seq = pairs.golden_seq
            AND getvariable('cross_framework') <> 0
            AND is_normalisation(coalesce(whole.module_class, whole.api))
            AND NOT is_normalisation(coalesce(t.module_class, t.api))
            AND whole.op_kind = t.op_kind
            AND t.seq IN (FROM compared)
        WHERE t.seq IN (SELECT target_seq FROM recorded WHERE target_seq IS NOT NULL)
        UNION ALL
        SELECT NULL, g.seq, place_after(before.target_seq, before.golden_seq, g.seq), NULL, g.*
        FROM alone AS g
        ASOF LEFT JOIN pairs AS before ON before.golden_seq <= g.seq
    ),
    -- One of several optimizers steps before others go forward, as that of a discriminator. In one that calls the training
    -- itself, as L-BFGS does, ops of all phases are
    ends AS (
        SELECT
            max(place) FILTER (WHERE direction = 'backward') AS last_backward,
            bool_or(direction = 'backward' AND parent IS NOT DISTINCT FROM 'optimizer') AS has_closures,
            bool_and(op_kind IN ('module', 'parameters_grad')) AS has_modules_only
        FROM placed
    ),
    nested AS (
        SELECT
            *,
            op_kind <> 'module' OR replace(op, '.backward.', '.forward.') NOT IN (SELECT op FROM parents) AS is_leaf
        FROM placed
    )
SELECT
    row_number() OVER (ORDER BY place, golden_seq) AS number,
    place,
    target_seq,
    golden_seq,
    CASE WHEN target_seq IS NULL THEN 'golden' WHEN golden_seq IS NULL THEN 'target' ELSE 'pair' END AS side,
    op,
    op_kind,
    coalesce(whole_api, module_class, nested.api) AS api,
    hash(api_type, coalesce(whole_api, module_class, nested.api), direction) AS kind,
    hash(api_type, nested.api, call) AS call_key,
    hash(api_type, nested.api) AS module_key,
    direction,
    parent,
    is_leaf,
    if(
        has_modules_only AND is_leaf AND hides_products(module_class),
        'matmul',
        rounding_of(coalesce(whole_api, module_class, nested.api))
    ) AS rounding,
    CASE
        WHEN direction IN ('backward', 'parameters_grad') THEN 'backward'
        WHEN place > last_backward OR (parent IN ('optimizer', 'clip_grad') AND NOT has_closures) THEN 'optimizer'
        ELSE 'forward'
    END AS phase
FROM nested
CROSS JOIN ends
