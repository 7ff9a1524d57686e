-- equal_units: whether two units have the same tensors and values, leaf by leaf.
-- grain: one row
-- parameters: the variables target_file and golden_file (of their tensors), target_held and golden_held (macros/unit_rows)
WITH
    target AS (
        FROM unit_rows(getvariable('target_file'), getvariable('target_held'))
    ),
    golden AS (
        FROM unit_rows(getvariable('golden_file'), getvariable('golden_held'))
    )
SELECT
    NOT EXISTS (
        FROM target AS t
        FULL JOIN golden AS g USING (row)
        WHERE
            (t.name, t.dtype, t.shape, t.value, t.digest, t.content)
            IS DISTINCT FROM (g.name, g.dtype, g.shape, g.value, g.digest, g.content)
            OR (t.max, t.min, t.mean, t.norm, t.max_int, t.min_int)
            IS DISTINCT FROM (g.max, g.min, g.mean, g.norm, g.max_int, g.min_int)
    ) AS are_equal
