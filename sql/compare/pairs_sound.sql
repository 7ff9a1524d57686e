-- pairs_sound: whether pairs names only rows that exist, each once; compare/paired_twice says which are wrong.
-- grain: one row
SELECT
    count(*) = count(DISTINCT target_row)
    AND count(*) = count(DISTINCT golden_row)
    AND coalesce(min(target_row), 0) >= 0
    AND coalesce(min(golden_row), 0) >= 0
    AND coalesce(max(target_row), -1) < (SELECT count(*) FROM target_leaves)
    AND coalesce(max(golden_row), -1) < (SELECT count(*) FROM golden_leaves) AS pairs_sound
FROM pairs
