-- tensor_sources: the folders that a run with tensor files was read from.
-- grain: one folder
-- parameters: $run; the view dumps
SELECT DISTINCT source
FROM dumps
WHERE run = $run AND files > 0 AND source IS NOT NULL
ORDER BY source
