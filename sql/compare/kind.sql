-- kind: by what the two dumps can be compared, which decides msprobe's table layout.
-- usual_rule: the rule to use if neither the user nor a mapping asks for another
-- other_names: the target has names of MindSpore and golden names of PyTorch, which mindtorch has too
-- dumped: what the two units hold: ops, kernels, parameters of a checkpoint, settings of a preflight, or only saved values
-- are_collected: lakeprobe collected both, so they name the call of which a backward op computed the gradient, where others
--   number such ops as they ran, and have results of asynchronous calls when they had arrived
-- grain: one row
-- parameters: target_unit, golden_unit (folders), target_held, golden_held (see unit_rows)
SELECT
    CASE
        WHEN t.task = 'tensor' AND g.task = 'tensor' THEN 'tensor'
        WHEN t.digests > 0 AND g.digests > 0 THEN 'digest'
        ELSE 'statistics'
    END AS kind,
    greatest(t.tensor_rows, g.tensor_rows) AS rows,
    t.framework <> g.framework AS cross_framework,
    CASE
        WHEN t.format = 'preflight' AND g.format = 'preflight' THEN 'settings'
        WHEN t.format LIKE '%checkpoint' AND g.format LIKE '%checkpoint' THEN 'parameters'
        WHEN t.format LIKE '% kernel dump' AND g.format LIKE '% kernel dump' THEN 'kernels'
        WHEN t.format = 'msprobe debug points' AND g.format = 'msprobe debug points' THEN 'saved values'
        ELSE 'ops'
    END AS dumped,
    CASE
        WHEN dumped = 'settings' THEN 'preflight'
        WHEN dumped = 'parameters' THEN 'checkpoint'
        WHEN dumped = 'kernels' THEN 'kernel'
        WHEN (t.format = 'ptdbg dump') <> (g.format = 'ptdbg dump') THEN 'ptdbg'
        WHEN t.framework <> g.framework THEN 'cross_framework'
        ELSE 'same_framework'
    END AS usual_rule,
    t.framework = 'mindspore' AND g.framework <> 'mindspore' AS other_names,
    t.format = 'lakeprobe' AND g.format = 'lakeprobe' AS are_collected,
    t.task = 'structure' AND g.task = 'structure' AS is_structure,
    t.complete AS target_complete,
    g.complete AS golden_complete
FROM unit_rows(getvariable('target_unit') || '/dumps.parquet', getvariable('target_held')) AS t
CROSS JOIN unit_rows(getvariable('golden_unit') || '/dumps.parquet', getvariable('golden_held')) AS g
