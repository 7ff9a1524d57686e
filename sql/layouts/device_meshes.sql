-- device_meshes: the meshes that the DTensors of a step lie on, each once.
-- grain: one mesh
-- parameters: $run, $step
SELECT DISTINCT CAST(json_extract(extra, '$.device_mesh') AS VARCHAR) AS recorded
FROM tensors
WHERE run = $run AND step = $step AND kind = 'tensor' AND extra LIKE '%"device_mesh"%'
ORDER BY recorded
