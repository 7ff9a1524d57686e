-- cell_dtype(kind, type, dtype, name): the dtype cell of a row: a tensor's dtype, or the Python type of a value.
-- msprobe spells the type of a rank argument (src, dst) without "class".
CREATE OR REPLACE TEMP MACRO cell_dtype(kind, type, dtype, name) AS
CASE
    WHEN kind = 'tensor' THEN dtype
    WHEN kind = 'scalar' AND is_rank_argument(name) THEN type
    WHEN kind = 'scalar'
        THEN
            '<class '''
            || regexp_replace(regexp_replace(type, '^u?int[0-9]+$', 'int'), '^float[0-9]+$', 'float')
            || '''>'
    WHEN kind = 'object' AND regexp_matches(type, '\.(dtype|device)$|ReduceOp$') THEN '<class ''str''>'
    WHEN kind = 'object' AND type LIKE '%memory_format' THEN '<class ''NoneType''>'
    WHEN kind = 'object' THEN type
    ELSE 'N/A'
END
