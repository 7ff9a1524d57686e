-- searched: the rows that the user's mappings pair, then those that the search paired; by name if nothing was searched.
-- grain: one pair of a target row and a golden row
WITH
    named AS (
        FROM pairs_default
        WHERE matched_by IN ('data', 'api', 'cell') OR (SELECT count(*) = 0 FROM search_rows)
    )
FROM named
UNION ALL
SELECT
    target_row,
    golden_row,
    'search' AS matched_by
FROM search_rows
WHERE
    target_row NOT IN (SELECT target_row FROM named)
    AND golden_row NOT IN (SELECT golden_row FROM named)
