-- leaf_text(kind, type, dtype, shape, value, norm, max, digest): one side of a row in a few words.
CREATE OR REPLACE MACRO leaf_text(kind, type, dtype, shape, value, norm, max, digest) AS
CASE kind
    WHEN 'tensor'
        THEN
            dtype || ' ' || shape::VARCHAR
            || CASE
                WHEN norm IS NOT NULL THEN ' norm ' || norm::VARCHAR
                WHEN max IS NOT NULL THEN ' max ' || max::VARCHAR
                WHEN digest IS NOT NULL THEN ' digest ' || digest
                ELSE ''
            END
    WHEN 'null' THEN 'null'
    WHEN 'scalar' THEN value
    WHEN 'object' THEN type || coalesce(' ' || value, '')
    ELSE '–'
END
