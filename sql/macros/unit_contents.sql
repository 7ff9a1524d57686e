-- unit_contents(folder, held): the places of the tensor contents of one unit.
-- grain: one content
-- held: see unit_rows
-- parameters: unit_values, the folder of the files with its copied contents
-- reference: what tensor_metrics reads the tensor by
CREATE OR REPLACE MACRO unit_contents(folder, held := NULL) AS TABLE
SELECT content, tensor_reference(getvariable('unit_values'), entry) AS reference
FROM unit_rows(folder || '/contents.parquet', held) AS entry
