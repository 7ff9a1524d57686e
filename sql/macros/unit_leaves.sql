-- unit_leaves(folder, held): the leaves of one unit.
-- grain: one leaf, as in tensors, in the order of the dump
-- held: see unit_rows
-- number: the value of a scalar as a number, if it is one; NULL for a text, whatever it spells
CREATE OR REPLACE MACRO unit_leaves(folder, held := NULL) AS TABLE
SELECT
    * EXCLUDE (op, name, section, path, fields),
    CASE WHEN kind = 'scalar' AND type <> 'str' THEN try_cast(value AS DOUBLE) END AS number
FROM unit_rows(folder || '/tensors.parquet', held)
