-- framework: the framework that a dump names; old dumps that name none are of PyTorch.
-- grain: one row, for the unit's dump
-- parameters: $folder and $held, of the unit
SELECT coalesce(framework, 'pytorch') AS framework
FROM unit_rows($folder || '/dumps.parquet', $held)
