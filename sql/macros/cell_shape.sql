-- cell_shape(kind, type, shape, value): the shape cell of a row.
CREATE OR REPLACE TEMP MACRO cell_shape(kind, type, shape, value) AS
CASE
    WHEN kind = 'tensor' THEN shape::VARCHAR
    WHEN kind = 'scalar' THEN '[]'
    WHEN kind = 'object' AND type LIKE '%.Size' THEN value
    WHEN kind = 'object' AND type = 'slice' THEN '(3,)'
    WHEN kind = 'object' THEN '[]'
    ELSE 'N/A'
END
