-- set_aside: how many records that differ were set aside, and why.
-- grain: one reason of one (step, rank)
-- parameters: $steps, $ranks (empty: all); the tables doubtful and leaf_errors
SELECT step, rank, reason, count(*) AS leaves
FROM doubtful
JOIN leaf_errors USING (step, rank, row)
WHERE
    difference <> 'noise'
    AND reason IN ('overwritten', 'not arrived', 'late digest')
    AND (len($steps::INTEGER[]) = 0 OR list_contains($steps::INTEGER[], step))
    AND (len($ranks::INTEGER[]) = 0 OR list_contains($ranks::INTEGER[], rank))
GROUP BY ALL
ORDER BY ALL
