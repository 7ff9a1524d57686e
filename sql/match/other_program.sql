-- other_program: whether two runs of one framework are different implementations, whose names say little.
-- grain: one row
-- is_other: names pair few ops, or the same is computed in other ops, as where kernels are fused
-- share: the larger of two: the share of the smaller side's ops that pair by name and have the same tensors; and the
--   share of APIs and modules that both call equally often. The same program with another batch or data_mode calls all
--   equally often. Too few ops decide nothing.
-- rewritten: at least two modules of one class are of another class in golden, or have other ops or modules inside, the same
--   ones in each, as where one projection makes queries, keys and values, or are called in another order, while norms of what
--   they take and give agree to a thousandth and extremes to a hundredth (a tenth of that for another class). Where an op is
--   missing by mistake, results differ by more. Each side must have an op that the other has not, or call one more often, or one
--   side records none of three and more: a tool that leaves out some kinds of ops is no other program, nor is a dump of modules
--   alone.
-- fused: a linear layer or convolution that one run calls more often takes the same weights altogether: as many, of one norm to
--   a thousandth. Where a call is missing or added by mistake, some weights are, too.
-- replaced: what follows, or the first eight tensors of it, agree as much, or to a rounding of their type, though each run calls
--   APIs that the other does not, as where attention is one op; or one does, twice at least, and the two call others unequally
--   often; or one computes each head by itself; or calls have each other's weights. Behind an op that is missing, or another one,
--   by mistake results differ. Only what both call equally often is the same call by its name.
WITH
    target_forms AS (
        SELECT seq, bit_xor(hash(slot, "repeat", shape)) AS form FROM target_leaves WHERE kind = 'tensor' GROUP BY seq
    ),
    golden_forms AS (
        SELECT seq, bit_xor(hash(slot, "repeat", shape)) AS form FROM golden_leaves WHERE kind = 'tensor' GROUP BY seq
    ),
    -- whatever is recomputed is no call more
    target_once AS (
        FROM target_ops WHERE is_recompute IS DISTINCT FROM true
    ),
    golden_once AS (
        FROM golden_ops WHERE is_recompute IS DISTINCT FROM true
    ),
    stems AS (
        SELECT stem, t.calls AS target_calls, g.calls AS golden_calls
        FROM (SELECT stem, count(*) AS calls FROM target_once GROUP BY stem) AS t
        FULL JOIN (SELECT stem, count(*) AS calls FROM golden_once GROUP BY stem) AS g USING (stem)
    ),
    calls AS (
        SELECT avg((target_calls IS NOT DISTINCT FROM golden_calls)::INTEGER) AS equal_share FROM stems
    ),
    sizes AS (
        SELECT least((SELECT count(*) FROM target_once), (SELECT count(*) FROM golden_once)) AS ops
    ),
    pairs AS (
        SELECT count(*) AS pairs
        FROM match_exact
        LEFT JOIN target_forms ON target_forms.seq = target_seq
        LEFT JOIN golden_forms ON golden_forms.seq = golden_seq
        WHERE target_forms.form IS NOT DISTINCT FROM golden_forms.form
    ),
    -- what a module calls: APIs, and the modules in it by their own names
    target_insides AS (
        SELECT
            parent,
            list(if(op_kind = 'api', api, regexp_extract(op, '([^.]+)\.[^.]+\.forward\.\d+$', 1))) AS calls,
            bool_or(op_kind = 'api') AS has_apis
        FROM target_ops
        WHERE direction = 'forward' AND parent IS NOT NULL
        GROUP BY parent
    ),
    golden_insides AS (
        SELECT
            parent,
            list(if(op_kind = 'api', api, regexp_extract(op, '([^.]+)\.[^.]+\.forward\.\d+$', 1))) AS calls,
            bool_or(op_kind = 'api') AS has_apis
        FROM golden_ops
        WHERE direction = 'forward' AND parent IS NOT NULL
        GROUP BY parent
    ),
    -- the class of a module may have another name
    target_modules AS (
        SELECT seq, part, op, module_class, regexp_replace(op, '\.[^.]+(\.forward\.\d+)$', '\1') AS place
        FROM target_ops
        WHERE op_kind = 'module' AND direction = 'forward'
    ),
    golden_modules AS (
        SELECT seq, part, op, module_class, regexp_replace(op, '\.[^.]+(\.forward\.\d+)$', '\1') AS place
        FROM golden_ops
        WHERE op_kind = 'module' AND direction = 'forward'
    ),
    other_insides AS (
        SELECT
            t.seq AS target_seq,
            g.seq AS golden_seq,
            hash(t.module_class, g.module_class, list_sort(target_insides.calls), list_sort(golden_insides.calls)) AS change,
            -- a module in place of which nothing is done may have done little
            if(t.module_class = g.module_class, 1e-3, 1e-4) AS precision
        FROM target_modules AS t
        JOIN golden_modules AS g ON g.place = t.place AND g.part = t.part
        LEFT JOIN target_insides ON target_insides.parent = t.op
        LEFT JOIN golden_insides ON golden_insides.parent = g.op
        WHERE
            t.module_class <> g.module_class
            OR CASE
                WHEN target_insides.calls IS NULL
                    THEN len(golden_insides.calls) >= 3 AND EXISTS (FROM target_insides WHERE has_apis)
                WHEN golden_insides.calls IS NULL
                    THEN len(target_insides.calls) >= 3 AND EXISTS (FROM golden_insides WHERE has_apis)
                ELSE
                    NOT list_has_all(golden_insides.calls, target_insides.calls)
                    AND NOT list_has_all(target_insides.calls, golden_insides.calls)
                    -- both call something, but unequally often, as for each head by itself
                    OR list_sort(list_filter(target_insides.calls, lambda called: list_contains(golden_insides.calls, called)))
                    <> list_sort(list_filter(golden_insides.calls, lambda called: list_contains(target_insides.calls, called)))
            END
    ),
    -- modules of which a call has the name of a call in another module of golden, which calls the API equally often: they are
    -- called in another order
    moved AS (
        SELECT DISTINCT
            target_modules.seq AS target_seq,
            there.seq AS golden_seq,
            hash(target_modules.module_class) AS change,
            1e-3 AS precision
        FROM match_exact
        JOIN target_ops AS t ON t.seq = target_seq AND t.op_kind = 'api' AND t.direction = 'forward'
        JOIN golden_ops AS g ON g.seq = golden_seq AND g.parent <> t.parent
        JOIN stems ON stems.stem = t.stem AND target_calls = golden_calls
        JOIN target_modules ON target_modules.op = t.parent
        JOIN golden_modules ON golden_modules.op = g.parent AND golden_modules.place <> target_modules.place
        JOIN golden_modules AS there ON there.place = target_modules.place
    ),
    alike AS (
        SELECT change
        FROM (FROM other_insides UNION ALL FROM moved)
        JOIN target_leaves AS t ON t.seq = target_seq
        -- LEFT, because DuckDB may begin an inner join with all leaves of both sides, by slot alone
        LEFT JOIN golden_leaves AS g ON g.seq = golden_seq AND g.slot = t.slot
        WHERE t.role IN ('input', 'output') AND t.norm IS NOT NULL
        GROUP BY change, target_seq
        HAVING
            count(DISTINCT t.role) FILTER (WHERE g.seq IS NOT NULL) = 2
            AND bool_and(abs(t.norm - g.norm) <= precision * g.norm)
            AND bool_and(greatest(abs(t.max - g.max), abs(t.min - g.min)) <= 10 * precision * greatest(abs(g.max), abs(g.min)))
    ),
    rewritten AS (
        SELECT change FROM alike GROUP BY change HAVING count(*) >= 2
    ),
    target_weights AS (
        SELECT seq, stem, shape, list_aggregate(shape, 'product') AS elements, norm, mean * sqrt(elements) AS mean
        FROM target_ops
        JOIN target_leaves USING (seq)
        WHERE direction = 'forward' AND slot IN ('input.1', 'input.weight') AND regexp_matches(api, '^(linear|dense|conv\w*)$')
    ),
    golden_weights AS (
        SELECT seq, stem, shape, list_aggregate(shape, 'product') AS elements, norm, mean * sqrt(elements) AS mean
        FROM golden_ops
        JOIN golden_leaves USING (seq)
        WHERE direction = 'forward' AND slot IN ('input.1', 'input.weight') AND regexp_matches(api, '^(linear|dense|conv\w*)$')
    ),
    fused AS (
        SELECT stem
        FROM (SELECT stem, sum(elements) AS elements, sqrt(sum(norm ** 2)) AS norm FROM target_weights GROUP BY stem) AS t
        JOIN (SELECT stem, sum(elements) AS elements, sqrt(sum(norm ** 2)) AS norm FROM golden_weights GROUP BY stem) AS g
            USING (stem)
        JOIN stems USING (stem)
        WHERE
            target_calls <> golden_calls
            AND t.elements = g.elements
            AND coalesce(abs(t.norm - g.norm) <= 1e-3 * g.norm, true)
    ),
    -- calls whose weights golden gives to another call of the API; where a call is missing, all later ones have the weights of
    -- the next
    displaced AS (
        SELECT target_seq, golden_seq
        FROM match_exact
        JOIN target_weights AS t ON t.seq = target_seq
        JOIN golden_weights AS g ON g.seq = golden_seq
        JOIN stems ON stems.stem = t.stem AND target_calls = golden_calls
        WHERE
            greatest(abs(t.norm - g.norm), abs(t.mean - g.mean)) > 1e-3 * g.norm
            AND EXISTS (
                FROM golden_weights AS other
                WHERE
                    other.stem = t.stem
                    AND other.shape = t.shape
                    AND greatest(abs(t.norm - other.norm), abs(t.mean - other.mean)) <= 1e-3 * other.norm
            )
    ),
    -- the first call, before the optimizer, of an API that only one run calls
    target_own AS (
        SELECT min(seq) AS begins, max(target_calls) AS calls
        FROM target_once
        JOIN stems USING (stem)
        WHERE
            golden_calls IS NULL
            AND op_kind = 'api'
            AND direction = 'forward'
            AND seq < (SELECT coalesce(max(seq), 'inf'::DOUBLE) FROM target_ops WHERE direction = 'backward')
    ),
    golden_own AS (
        SELECT min(seq) AS begins, max(golden_calls) AS calls
        FROM golden_once
        JOIN stems USING (stem)
        WHERE
            target_calls IS NULL
            AND op_kind = 'api'
            AND direction = 'forward'
            AND seq < (SELECT coalesce(max(seq), 'inf'::DOUBLE) FROM golden_ops WHERE direction = 'backward')
    ),
    begins AS (
        SELECT coalesce(t.begins, 0) AS target_begins, coalesce(g.begins, 0) AS golden_begins
        FROM target_own AS t
        CROSS JOIN golden_own AS g
        WHERE
            t.begins + g.begins IS NOT NULL
            -- an extra op has no counterpart, and is there once
            OR (coalesce(t.calls, g.calls) >= 2 AND EXISTS (FROM stems WHERE target_calls <> golden_calls))
        UNION ALL
        SELECT min(target_seq), min(golden_seq)
        FROM displaced
        HAVING count(*) >= 2
        UNION ALL
        -- what one run computes at once, and the other for each head by itself
        SELECT min(t.seq), min(g.seq)
        FROM match_exact
        JOIN target_ops AS o ON o.seq = target_seq AND o.call_number = 0 AND o.direction = 'forward'
        JOIN stems ON stems.stem = o.stem AND target_calls <> golden_calls
        JOIN target_leaves AS t ON t.seq = target_seq AND t.role = 'output'
        JOIN golden_leaves AS g ON g.seq = golden_seq AND g.slot = t.slot
        -- a single number, as a loss that is divided, has none
        WHERE len(t.shape) <> len(g.shape) AND least(len(t.shape), len(g.shape)) >= 2
        HAVING count(*) > 0
    ),
    following AS (
        SELECT
            row_number() OVER (ORDER BY target_seq, t.slot) AS nth,
            g.norm,
            is_alike(t.norm, t.max, t.min, g.norm, g.max, g.min, greatest(1e-3, epsilon_of(t.dtype))) AS agrees
        FROM (SELECT min(target_begins) AS target_begins, min(golden_begins) AS golden_begins FROM begins)
        JOIN match_exact ON target_seq > target_begins AND golden_seq > golden_begins
        JOIN target_ops AS o ON o.seq = target_seq
        JOIN stems ON stems.stem = o.stem AND target_calls = golden_calls
        JOIN target_leaves AS t ON t.seq = target_seq AND t.role = 'output' AND len(t.shape) > 1
        LEFT JOIN golden_leaves AS g ON g.seq = golden_seq AND g.slot = t.slot
        WHERE t.norm > 0
        ORDER BY target_seq, t.slot
        LIMIT 24
    ),
    replaced AS (
        SELECT
            (count(DISTINCT norm) FILTER (WHERE agrees) >= 8 AND avg(agrees::INTEGER) >= 0.7)
            -- a defect may follow, too
            OR (count(DISTINCT norm) FILTER (WHERE nth <= 8) >= 6 AND bool_and(agrees) FILTER (WHERE nth <= 8)) AS is_replaced
        FROM following
    )
SELECT
    ops >= 8
    AND (
        greatest(pairs / ops, equal_share) < 0.6
        OR EXISTS (FROM rewritten)
        OR EXISTS (FROM fused)
        OR is_replaced
    ) AS is_other
FROM sizes
CROSS JOIN pairs
CROSS JOIN calls
CROSS JOIN replaced
