-- unit_leaves(folder): the leaves of one unit.
-- grain: one leaf, as in tensors, in the order of the dump
-- number: the value of a scalar as a number, if it is one; NULL for a text, whatever it spells
CREATE OR REPLACE MACRO unit_leaves(folder) AS TABLE
SELECT
    * EXCLUDE (op, name, section, path, fields),
    CASE WHEN kind = 'scalar' AND type <> 'str' THEN try_cast(value AS DOUBLE) END AS number
FROM read_parquet(folder || '/tensors.parquet', hive_partitioning = false)
