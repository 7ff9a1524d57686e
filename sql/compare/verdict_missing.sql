-- verdict_missing: rows of the comparison without a verdict or with several, and verdicts without a row. There must be
--   none.
-- grain: one such row
SELECT
    coalesce(paired.row, verdicts.row) AS row,
    count(verdicts.row) FILTER (WHERE verdicts.verdict IS NOT NULL AND verdicts.outcome IS NOT NULL) AS verdicts
FROM paired
FULL JOIN verdicts ON verdicts.row = paired.row
GROUP BY ALL
HAVING count(paired.row) <> 1 OR verdicts <> 1
ORDER BY row
LIMIT 5
