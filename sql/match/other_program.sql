-- other_program: whether two runs of one framework are different implementations, whose names say little.
-- grain: one row
-- is_other: names pair few ops, or modules of one name compute the same in other ops, as where kernels are fused
-- share: the larger of two: the share of the smaller side's ops that pair by name and have the same tensors; and the
--   share of APIs and modules that both call equally often. The same program with another batch or data_mode calls all
--   equally often. Too few ops decide nothing.
-- rewritten: at least two modules of one class have other ops inside than those of golden, the same ones in each, while
--   norms of what they take and give agree to a thousandth and extremes to a hundredth. Where an op is missing by mistake,
--   results differ by more. Each side must have an op that the other has not, or one side records none of three and more:
--   a tool that leaves out some kinds of ops is no other program, nor is a dump of modules alone.
WITH
    target_forms AS (
        SELECT seq, bit_xor(hash(slot, "repeat", shape)) AS form FROM target_leaves WHERE kind = 'tensor' GROUP BY seq
    ),
    golden_forms AS (
        SELECT seq, bit_xor(hash(slot, "repeat", shape)) AS form FROM golden_leaves WHERE kind = 'tensor' GROUP BY seq
    ),
    calls AS (
        SELECT avg((t.calls IS NOT DISTINCT FROM g.calls)::INTEGER) AS equal_share
        FROM (SELECT stem, count(*) AS calls FROM target_ops GROUP BY stem) AS t
        FULL JOIN (SELECT stem, count(*) AS calls FROM golden_ops GROUP BY stem) AS g ON g.stem = t.stem
    ),
    sizes AS (
        SELECT least((SELECT count(*) FROM target_ops), (SELECT count(*) FROM golden_ops)) AS ops
    ),
    pairs AS (
        SELECT count(*) AS pairs
        FROM match_exact
        LEFT JOIN target_forms ON target_forms.seq = target_seq
        LEFT JOIN golden_forms ON golden_forms.seq = golden_seq
        WHERE target_forms.form IS NOT DISTINCT FROM golden_forms.form
    ),
    target_insides AS (
        SELECT parent, list(api ORDER BY api) AS apis
        FROM target_ops
        WHERE op_kind = 'api' AND direction = 'forward' AND parent IS NOT NULL
        GROUP BY parent
    ),
    golden_insides AS (
        SELECT parent, list(api ORDER BY api) AS apis
        FROM golden_ops
        WHERE op_kind = 'api' AND direction = 'forward' AND parent IS NOT NULL
        GROUP BY parent
    ),
    other_insides AS (
        SELECT
            t.seq AS target_seq,
            g.seq AS golden_seq,
            hash(t.module_class, target_insides.apis, golden_insides.apis) AS change
        FROM target_ops AS t
        JOIN golden_ops AS g ON g.op = t.op AND g.part = t.part
        LEFT JOIN target_insides ON target_insides.parent = t.op
        LEFT JOIN golden_insides ON golden_insides.parent = g.op
        WHERE
            t.op_kind = 'module'
            AND t.direction = 'forward'
            AND CASE
                WHEN target_insides.apis IS NULL THEN len(golden_insides.apis) >= 3 AND EXISTS (FROM target_insides)
                WHEN golden_insides.apis IS NULL THEN len(target_insides.apis) >= 3 AND EXISTS (FROM golden_insides)
                ELSE
                    NOT list_has_all(golden_insides.apis, target_insides.apis)
                    AND NOT list_has_all(target_insides.apis, golden_insides.apis)
            END
    ),
    alike AS (
        SELECT change
        FROM other_insides
        JOIN target_leaves AS t ON t.seq = target_seq
        -- LEFT, because DuckDB may begin an inner join with all leaves of both sides, by slot alone
        LEFT JOIN golden_leaves AS g ON g.seq = golden_seq AND g.slot = t.slot
        WHERE t.role IN ('input', 'output') AND t.norm IS NOT NULL
        GROUP BY change, target_seq
        HAVING
            count(DISTINCT t.role) FILTER (WHERE g.seq IS NOT NULL) = 2
            AND bool_and(abs(t.norm - g.norm) <= 1e-3 * g.norm)
            AND bool_and(greatest(abs(t.max - g.max), abs(t.min - g.min)) <= 1e-2 * greatest(abs(g.max), abs(g.min)))
    ),
    rewritten AS (
        SELECT change FROM alike GROUP BY change HAVING count(*) >= 2
    )
SELECT ops >= 8 AND (greatest(pairs / ops, equal_share) < 0.6 OR EXISTS (FROM rewritten)) AS is_other
FROM sizes
CROSS JOIN pairs
CROSS JOIN calls
