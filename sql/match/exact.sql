-- exact: pairs rows of the same op, call and slot; backward calls pair in order of appearance.
-- grain: one pair of a target row and a golden row
SELECT
    target.row AS target_row,
    golden.row AS golden_row,
    'exact' AS matched_by
FROM target
JOIN golden USING (stem, number, slot, repeat)
