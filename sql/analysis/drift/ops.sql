-- ops: the ops that the runs have, each name once.
-- grain: one name
-- parameters: $runs, golden among them; the view ops
-- path: the module's path if the op is a module or its parameter gradients; else NULL
-- module: the op's module: its own path, or the op of the module around it
SELECT
    op,
    min(api) FILTER (kind IN ('module', 'parameters_grad')) AS path,
    coalesce(path, min(parent)) AS module
FROM ops
WHERE list_contains($runs, run)
GROUP BY op
