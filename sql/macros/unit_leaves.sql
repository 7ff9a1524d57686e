-- unit_leaves(folder, of_rank): the leaves of one unit.
-- grain: one leaf, as in tensors, in the order of the dump
-- of_rank: see unit_rows
-- number: the value of a scalar as a number, if it is one; NULL for a text, whatever it spells
CREATE OR REPLACE MACRO unit_leaves(folder, of_rank := NULL) AS TABLE
SELECT
    * EXCLUDE (op, name, section, path, fields),
    CASE WHEN kind = 'scalar' AND type <> 'str' THEN try_cast(value AS DOUBLE) END AS number
FROM unit_rows(folder || '/tensors.parquet', of_rank)
