-- leaf_text(kind, type, dtype, shape, value, statistic, digest): one side of a row in a few words.
CREATE OR REPLACE MACRO leaf_text(kind, type, dtype, shape, value, statistic, digest) AS
CASE kind
    WHEN 'tensor' THEN dtype || ' ' || shape::VARCHAR || coalesce(' ' || statistic, ' digest ' || digest, '')
    WHEN 'null' THEN 'null'
    WHEN 'scalar' THEN value
    WHEN 'object' THEN type || coalesce(' ' || value, '')
    ELSE '–'
END
