-- cell_statistic(kind, type, letter, statistic, exact, value, extra): one of the max, min, mean and norm cells of a
--   row. A scalar or object fills all four. N/A if kind is NULL (no such side).
CREATE OR REPLACE TEMP MACRO cell_statistic(kind, type, letter, statistic, exact, value, extra) AS
CASE kind
    WHEN 'tensor' THEN
        CASE letter
            WHEN 'f' THEN cell_number(statistic)
            WHEN 'i' THEN coalesce(exact::VARCHAR, TRY_CAST(statistic AS HUGEINT)::VARCHAR, cell_number(statistic))
            WHEN 'b' THEN if(statistic = 1, 'True', 'False')
            WHEN 's' THEN cell_number(statistic)
            ELSE 'None'
        END
    WHEN 'scalar' THEN
        CASE
            WHEN type = 'str' THEN value
            WHEN value = 'true' THEN 'True'
            WHEN value = 'false' THEN 'False'
            WHEN value IN ('NaN', 'Infinity', '-Infinity') THEN cell_number(value::DOUBLE)
            ELSE coalesce(value, 'None')
        END
    WHEN 'object' THEN
        CASE
            WHEN type LIKE '%ProcessGroup' THEN coalesce(replace(extra ->> 'group_ranks', ',', ', '), 'None')
            WHEN type LIKE '%memory_format' THEN coalesce(extra ->> 'format', 'None')
            WHEN type = 'slice' THEN replace(value, 'null', 'None')
            ELSE coalesce(value, 'None')
        END
    WHEN 'null' THEN 'None'
    ELSE 'N/A'
END
