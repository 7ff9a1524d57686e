-- cell_difference(target, golden, diff, cell): a difference cell, from both sides' cells, the difference, and the text
--   of that number. Equal cells give 0. Values that are not numbers give Diff, or N/A if a side is missing or both are
--   devices.
CREATE OR REPLACE TEMP MACRO cell_difference(target, golden, diff, cell) AS
CASE
    WHEN target = 'N/A' OR golden = 'N/A' THEN 'N/A'
    WHEN target = golden OR diff = 0 THEN '0'
    WHEN target IN ('True', 'False') OR golden IN ('True', 'False') THEN 'Diff'
    WHEN isnan(diff) THEN 'Nan'
    WHEN isinf(diff) THEN if(diff > 0, 'inf', '-inf')
    WHEN diff IS NOT NULL THEN cell
    WHEN is_device(target) AND is_device(golden) THEN 'N/A'
    ELSE 'Diff'
END
