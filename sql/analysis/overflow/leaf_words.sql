-- nonfinite_text(slot, dtype, shape, value, max, min, mean): the contents of a leaf, in words.
CREATE OR REPLACE TEMP MACRO nonfinite_text(slot, dtype, shape, value, max, min, mean) AS
CASE
    WHEN dtype IS NULL THEN slot || ' = ' || value
    WHEN max IS NULL THEN format('{} {}{}', slot, dtype, shape) || coalesce(format(' mean {:.5g}', mean), '')
    ELSE format('{} {}{} {:.5g} … {:.5g}, mean {}', slot, dtype, shape, min, max, coalesce(format('{:.5g}', mean), '?'))
END
