-- unit_contents(folder): the places of the tensor contents of one unit.
-- grain: one content
-- parameters: unit_folder; `folder` is the pattern that matches it
-- reference: what tensor_metrics reads the tensor by
CREATE OR REPLACE MACRO unit_contents(folder) AS TABLE
SELECT content, tensor_reference(getvariable('unit_folder'), entry) AS reference
FROM read_parquet(folder || '/contents.parquet', hive_partitioning = false) AS entry
