-- leaf_text(kind, type, dtype, shape, value, statistic, digest): one side of a row in a few words. A value may have any
-- length: its first 200 characters say what it is.
CREATE OR REPLACE MACRO leaf_text(kind, type, dtype, shape, value, statistic, digest) AS
CASE kind
    WHEN 'tensor' THEN dtype || ' ' || shape::VARCHAR || coalesce(' ' || statistic, ' digest ' || digest, '')
    WHEN 'null' THEN 'null'
    WHEN 'scalar' THEN if(length(value) > 200, value[:200] || '…', value)
    WHEN 'object' THEN type || coalesce(' ' || if(length(value) > 200, value[:200] || '…', value), '')
    ELSE '–'
END
